"""Where two event logs part."""

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from stormcell.engine.sealed.compare import Comparison, compare, cut_off, first_difference

EVENT = st.builds(lambda event, t: {"event": event, "t": t}, st.sampled_from(["probe", "begin"]), st.integers(0, 9))
LOG = st.lists(EVENT, max_size=6)


def log(*events):
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def digest(log):
    return hashlib.sha256(log).hexdigest()


@given(LOG, LOG)
def test_the_first_event_that_differs_is_named(one, other):
    found = first_difference(log(*one), log(*other))
    if one == other:
        assert found is None
        return
    assert found is not None
    number = found.event or 0
    assert one[:number] == other[:number]
    assert (found.was, found.now) == (
        one[number] if number < len(one) else None,
        other[number] if number < len(other) else None,
    )
    assert found.was != found.now
    assert f"event {number}" in found.text


def test_what_differs_is_said_with_both_values():
    found = first_difference(
        log({"event": "begin"}, {"event": "probe", "step": "before.a", "t": 1.5, "n": 1}),
        log({"event": "begin"}, {"event": "probe", "step": "before.a", "t": 1.5, "n": "x" * 200}),
    )
    assert found is not None
    assert found.text.startswith('event 1 (probe before.a) differs in n: n: 1 was, "xxx')
    assert len(found.text) < 160


def test_a_log_that_ends_early_says_which_run_lacks_what():
    more = first_difference(log({"event": "a"}), log({"event": "a"}, {"event": "end"}))
    less = first_difference(log({"event": "a"}, {"event": "end"}), log({"event": "a"}))
    assert more is not None and less is not None
    assert more.text == "event 1 (end) is not in the recorded run"
    assert less.text == "event 1 (end) is not in the new run"


def test_bytes_are_compared_and_not_what_they_mean():
    assert first_difference(b'{"event": "a", "t": 1}\n', b'{"event": "a", "t": 1.0}\n') is not None
    assert first_difference(b'{"a": 1}\n', b'{"a": 1}') is not None


def test_a_line_that_is_no_event_is_shown_even_so():
    found = first_difference(b"\xff\xfe", b'["x"]')
    assert found is not None and found.event == 0
    assert found.was is not None and found.was["event"] == "malformed"
    assert "event 0 (malformed) differs in text" in found.text


def test_a_run_that_came_without_its_log_is_compared_by_its_digest():
    assert compare(None, digest(log({"event": "a"})), log({"event": "a"})) == Comparison()
    other = compare(None, digest(log({"event": "a"})), log({"event": "b"})).difference
    assert other is not None and other.event is None
    assert "another digest" in other.text


def test_a_log_that_is_damaged_says_less_than_its_digest():
    whole = log({"event": "a"}, {"event": "b"})
    for damaged in (whole[:-5], log({"event": "a"}), b"", b"\xff\xfe", log({"event": "a"}, {"event": "edited"})):
        assert compare(damaged, digest(whole), whole) == Comparison(damaged=True)
        found = compare(damaged, digest(whole), log({"event": "c"}))
        assert found.damaged and found.difference is not None and found.difference.event is None
        assert found.cut_off is None


BEGIN, PROBE = {"event": "begin", "on": "guest"}, {"event": "probe", "on": "guest", "t": 1.5}
END, RELEASED = {"event": "end", "on": "guest"}, {"event": "released", "on": "host"}
LOST = {"event": "lost", "on": "host", "code": "interrupted"}
WHOLE = log(BEGIN, PROBE, END, RELEASED)


def test_a_run_that_never_came_to_its_end_is_compared_as_far_as_it_goes():
    assert cut_off(log(BEGIN, PROBE, LOST, RELEASED), WHOLE) == 2  # Ctrl-C, or its QEMU was killed
    assert cut_off(log(BEGIN), WHOLE) == 1  # its runner was killed
    assert cut_off(log(BEGIN, PROBE)[:-7], WHOLE) == 1  # in the middle of a line
    assert cut_off(b"", WHOLE) == 0


def test_a_new_run_that_this_host_lost_tells_nothing_of_what_would_have_come():
    lost = log(BEGIN, {"event": "lost", "on": "host", "code": "deadline"}, RELEASED)
    found = compare(WHOLE, digest(WHOLE), lost)
    assert found.difference is not None
    assert (found.lost, found.cut_off, found.damaged) == (1, None, False)
    differs = log(BEGIN | {"t": 1}, {"event": "lost", "on": "host"}, RELEASED)
    assert compare(WHOLE, digest(WHOLE), differs).lost is None
    both = compare(lost, digest(lost), lost)
    assert both == Comparison(), "a run that is lost the same way twice is the same"


def test_a_recorded_run_that_was_killed_left_no_digest():
    assert compare(log(BEGIN), "", WHOLE).cut_off == 1
    assert compare(None, "", WHOLE).cut_off == 0
    interrupted = log(BEGIN, LOST, RELEASED)
    assert compare(interrupted, digest(interrupted), WHOLE).cut_off == 1


def test_a_run_that_came_to_its_end_or_differs_before_was_not_cut_off():
    assert cut_off(log(BEGIN, END, RELEASED), WHOLE) is None
    assert cut_off(WHOLE, log(BEGIN)) is None
    assert cut_off(log(BEGIN, PROBE | {"t": 2}, LOST, RELEASED), WHOLE) is None
    assert cut_off(log(BEGIN, PROBE)[:-7] + b"7", WHOLE) is None
