from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.spec import units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("300ms", 0.3), ("2s", 2), ("1.5 s", 1.5), ("1m", 60), ("1h", 3600), ("250us", 0.00025), ("7d", 604800), (0, 0)],
)
def test_durations(text, seconds):
    assert units.duration(text) == pytest.approx(seconds, rel=1e-12)


def test_a_timedelta_is_a_duration():
    assert units.duration(timedelta(milliseconds=15)) == 0.015


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("300", "has no unit"),
        (300, "has no unit"),
        ("3 fortnights", "is no unit"),
        ("fast", "is not a duration"),
        (True, "text with a unit"),
        (None, "text with a unit"),
        ("1e3s", "is not"),
        ("nan s", "is not"),
        ("", "is not"),
    ],
)
def test_what_is_no_duration_says_so(text, said):
    with pytest.raises(ValueError, match=said):
        units.duration(text)


@pytest.mark.parametrize(("text", "count"), [("64MiB", 64 << 20), ("1GB", 10**9), ("4K", 4096), ("0", 0), ("10B", 10)])
def test_sizes(text, count):
    assert units.size(text) == count


@given(st.integers(min_value=0, max_value=10**15))
def test_a_rendered_duration_reads_back(nanoseconds):
    seconds = nanoseconds / 1e9
    assert units.duration(units.duration_text(seconds)) == pytest.approx(seconds, rel=1e-8, abs=1e-9)


@given(st.integers(min_value=0, max_value=1 << 50))
def test_a_rendered_size_reads_back(count):
    assert units.size(units.size_text(count)) == count
