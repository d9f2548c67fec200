"""The guest's times on the host's clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.report.clock import Clock


def guest(h, t, n=1):
    return {"event": "step", "on": "guest", "h": h, "t": t, "n": n}


def test_the_quickest_delivery_tells_where_the_guest_s_clock_stood():
    events = [guest(0.9, 0.1, 0), guest(1.5, 1.0), guest(2.9, 2.0)]
    clock = Clock(events)
    assert clock.of(events[0]) == 0.6
    assert clock.of(events[2]) == 2.9 and clock.of(events[1], 1.2) == pytest.approx(2.1)


def test_a_machine_that_was_frozen_steps_back_behind_the_host():
    events = [guest(1.0, 0.5, 0), guest(2.0, 1.5), guest(13.0, 2.5), guest(14.0, 3.5)]
    clock = Clock(events)
    assert [clock.of(event) for event in events] == pytest.approx([1.0, 2.0, 13.0, 14.0])


def test_a_cold_boot_starts_the_guest_s_clock_anew():
    events = [guest(1.0, 0.5, 0), {"event": "machine", "on": "host", "h": 3.0}, guest(9.0, 0.1, 0), guest(9.5, 0.6)]
    clock = Clock(events)
    assert [clock.of(event) for event in events] == pytest.approx([1.0, 3.0, 9.0, 9.5])


numbers = st.floats(allow_nan=True, allow_infinity=True) | st.integers() | st.text() | st.none()


@given(st.lists(st.tuples(numbers, numbers, st.sampled_from(["guest", "host"]), st.integers(0, 1)), max_size=20))
def test_whatever_the_events_say_a_time_lies_within_the_run(raw):
    events = [{"event": "step", "on": on, "h": h, "t": t, "n": n} for h, t, on, n in raw]
    clock = Clock(events)
    for event in events:
        at = clock.of(event)
        assert at is None or 0 <= at <= clock.end
