"""How long a fault was in force, out of the times in its events."""

from typing import Any

from stormcell.engine.compile import compile_plan
from stormcell.engine.held import held
from stormcell.engine.load import load_mapping

BASE = {"name": "x", "steady_state": [{"name": "a", "command": {"run": "true"}, "expect": {"exit_code": 0}}]}
RAMP = {"ramp": {"parameter": "delay", "through": ["10ms", "1s"], "each": "5s"}}


def spans(schedule: dict[str, Any] | None, *events: dict[str, Any]) -> list[tuple[str, float | None, float | None]]:
    fault = {"kind": "net.delay", "device": "lo", "delay": "10ms"} | ({"schedule": schedule} if schedule else {})
    loaded = load_mapping({**BASE, "fault": fault})
    plan = compile_plan(loaded.experiment, loaded.disturbances)
    return [(h.level, h.asked_s, h.had_s) for h in held(loaded.disturbances[0], plan, events)]


def applied(tried: float, since: float, cycle: int = 0, ok: bool = True) -> dict[str, Any]:
    return {"event": "applied", "ok": ok, "tried": tried, "since": since, **({"cycle": cycle} if cycle else {})}


def undone(until: float, cycle: int = 0) -> dict[str, Any]:
    return {"event": "undone", "ok": True, "until": until, **({"cycle": cycle} if cycle else {})}


def test_pulses_each_with_what_was_asked_and_what_it_had():
    pulse = {"pulse": {"on": "2s", "off": "1s", "times": 3}}
    events = (applied(0, 0.3), undone(2.4), applied(3.5, 3.8, 1), undone(4.8, 1))
    assert spans(pulse, *events) == [("", 2, 2.1), ("", 2, 1.0), ("", 2, None)]


def test_a_level_ends_where_the_change_to_the_next_begins():
    events = (applied(0, 0.2), applied(5.3, 5.6, 1), undone(10.7, 1))
    assert spans(RAMP, *events) == [("delay 10ms", 5, 5.1), ("delay 1s", 5, 5.1)]


def test_a_level_that_failed_was_never_in_force():
    events = (applied(0, 0.2), applied(5.3, 5.6, 1, ok=False), undone(6.0, 1))
    assert spans(RAMP, *events)[1] == ("delay 1s", 5, None)


def test_one_that_lasts_until_the_undo_has_only_what_it_had():
    assert spans({"at": "1s"}, applied(1, 1.25), undone(9.25)) == [("", None, 8)]
    assert spans(None, applied(1, 1.25), undone(9.25)) == [("", None, 8)]
    assert spans(None) == []


def test_times_that_a_guest_made_up_are_none():
    assert spans({"lasts": "1s"}, {"event": "applied", "ok": True, "since": "now", "cycle": []}) == [("", 1, None)]
    assert spans({"lasts": "1s"}, applied(5, 5.5), undone(2)) == [("", 1, None)]
