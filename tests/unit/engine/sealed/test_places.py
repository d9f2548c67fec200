"""Where a recorded run may be stopped, and what is said of a place that it does not have."""

import pytest

from stormcell.engine.sealed.places import Place, called, parse_place, until
from stormcell.spec.errors import SpecError

EVENTS = [
    {"h": 0.0, "event": "create", "on": "host"},
    {"h": 0.0, "event": "created", "on": "host"},
    {"h": 0.003, "on": "guest", "n": 0, "t": 0.003, "event": "begin"},
    {"h": 0.2, "on": "guest", "n": 1, "t": 0.2, "event": "step", "step": "crash"},
    {"h": 0.2, "event": "machine", "on": "host"},
    {"h": 4.25, "on": "guest", "n": 2, "t": 4.25, "event": "end"},
    {"h": 4.25, "event": "released", "on": "host"},
]


@pytest.mark.parametrize(
    ("text", "place"),
    [("12.5s", Place(seconds=12.5)), ("300ms", Place(seconds=0.3)), ("event:31", Place(event=31))],
)
def test_a_place_is_a_time_or_an_event(text, place):
    assert parse_place(text) == place
    assert parse_place(place.text) == place


@pytest.mark.parametrize("text", ["", "12.5", "event:", "event:-1", "event:x", "soon", "-1s", "event:0x1", "event:³"])
def test_anything_else_is_refused_with_the_rule(text):
    with pytest.raises(SpecError, match="place in a run"):
        parse_place(text)


def test_an_event_is_counted_among_the_guests_own():
    assert until(Place(event=2), EVENTS, "f").event == 0
    assert until(Place(event=5), EVENTS, "f").event == 2
    assert until(Place(seconds=4.25), EVENTS, "f").seconds == 4.25


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (
            Place(seconds=4.26),
            "last event in its guest is event:5, at 4.250 s, before 4.26 s.*guest time.*stop at event:5",
        ),
        (Place(event=7), "no event 7: its events are 0 to 6.*stop at event:5, the last in its guest"),
        (Place(event=4), r"event 4 \(machine\) was the host's.*event:(3|5)"),
        (Place(event=0), r"event 0 \(create\) was the host's.*event:2"),
    ],
)
def test_a_place_that_the_run_does_not_have(place, said):
    with pytest.raises(SpecError) as raised:
        until(place, EVENTS, "the folder")
    assert raised.match(r"(?s)" + said)


def test_a_run_without_a_guest_has_no_place():
    with pytest.raises(SpecError, match="before anything happened in its guest"):
        until(Place(seconds=0), EVENTS[:2], "f")


def test_an_event_in_a_few_words():
    assert called({"event": "reading", "label": "before", "fault": "fault", "reading": {}}) == "reading before fault"
