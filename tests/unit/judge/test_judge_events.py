"""Reading event logs: what a crash leaves is read, what nobody writes is named."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.judge.events import read_events
from stormcell.judge.verdict import judge
from stormcell.spec.errors import SpecError
from stormcell.spec.verdict import Verdict
from tests.unit.judge.judge_story import Story, guest_plan, receipt


def written(folder: Path, text: bytes) -> Path:
    path = folder / "events.jsonl"
    path.write_bytes(text)
    return path


def as_lines(events: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def test_a_whole_log_is_read_back_as_it_was(tmp_path: Path) -> None:
    events = Story(guest_plan()).whole().events
    assert read_events(written(tmp_path, as_lines(events))) == events


def test_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    assert read_events(written(tmp_path, b'{"event": "begin"}\n{"event": "st')) == [{"event": "begin"}]


def test_a_last_line_that_lacks_only_its_line_feed_counts(tmp_path: Path) -> None:
    assert read_events(written(tmp_path, b'{"event": "end"}')) == [{"event": "end"}]


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b"7", b"{}", b'{"event": 7}', b"", b"\xff\xfe", b'{"event":"x","t":NaN}']
)
def test_anything_else_in_the_middle_is_named_by_its_line(tmp_path: Path, line: bytes) -> None:
    events = read_events(written(tmp_path, b'{"event": "begin"}\n' + line + b'\n{"event": "end"}\n'))
    assert [event["event"] for event in events] == ["begin", "malformed", "end"]
    assert events[1]["line"] == 2


def test_a_guest_cannot_write_the_word_malformed_itself(tmp_path: Path) -> None:
    (event,) = read_events(written(tmp_path, b'{"event": "malformed", "on": "guest"}\n'))
    assert (event["on"], event["line"]) == ("host", 1)


def test_deep_nesting_is_no_crash(tmp_path: Path) -> None:
    (event,) = read_events(written(tmp_path, b"[" * 100_000 + b"\n"))
    assert event["event"] == "malformed"


def test_no_log_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"events\.jsonl"):
        read_events(tmp_path / "events.jsonl")


def test_a_malformed_line_in_a_run_that_did_well_makes_it_unknown(tmp_path: Path) -> None:
    plan = guest_plan()
    lines = as_lines(Story(plan).whole().events).splitlines(keepends=True)
    text = b"".join([*lines[:4], b"oops\n", *lines[4:]])
    result = judge(plan, read_events(written(tmp_path, text)), receipt(plan))
    assert (result.verdict, result.reasons[0].code) == (Verdict.UNKNOWN, "events_malformed")
    assert result.reasons[0].text.startswith("line 5:")


@given(st.data())
def test_a_log_cut_at_any_byte_never_survives(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    plan = guest_plan()
    whole = as_lines(Story(plan).whole().events)
    cut = data.draw(st.integers(0, len(whole) - 2))
    path = written(tmp_path_factory.mktemp("cut"), whole[:cut])
    assert judge(plan, read_events(path), receipt(plan)).verdict == Verdict.UNKNOWN
