"""A fault that was in force has to last; what the target does to the reading is no end of it."""

import json
from typing import Any

from stormcell.engine.compile import compile_plan
from stormcell.engine.load import disturbance
from stormcell.engine.receipts import receipt
from stormcell.spec.experiment import Experiment

EXPERIMENT = {
    "name": "x",
    "steady_state": [{"name": "a", "command": {"run": "true"}, "expect": {"exit_code": 0}}],
    "fault": {"kind": "disk.fill", "path": "/srv/wal"},
}


def room(filler: int | None, refused: int, by: dict[str, int] | None) -> str:
    return json.dumps({"filler": filler, "probe": {"attempts": 3, "refused": refused}, "refused": by})


def receipt_of(**readings: str):
    experiment = Experiment.model_validate(EXPERIMENT)
    item = disturbance("fault", 1, experiment.disturbances["fault"])
    plan = compile_plan(experiment, [item])
    events: list[dict[str, Any]] = [
        {
            "event": "reading",
            "fault": "fault",
            "label": label,
            "reading": {"at": 0, "outputs": {"room": {"exit": 0, "out": text}}},
        }
        for label, text in readings.items()
    ]
    return receipt(item, plan, events)


FULL = {"before": room(None, 0, None), "during": room(4096, 3, {})}


def test_a_database_that_gives_room_back_does_not_end_the_fault():
    found = receipt_of(**FULL, after=room(4096, 0, {"postgres": 1}), undone=room(None, 0, None))
    assert (found.in_force, found.acted, found.clean) == (True, 1, True)


def test_a_filler_that_somebody_removed_does():
    assert receipt_of(**FULL, after=room(None, 0, {})).in_force is False
    assert receipt_of(**FULL, after=room(1024, 3, {})).in_force is False


def test_what_was_not_read_is_not_judged():
    found = receipt_of(before=FULL["before"])
    assert (found.in_force, found.acted, found.clean) == (None, None, None)


def test_one_that_was_refused_left_nothing_though_another_fault_is_seen_in_its_readings():
    """The file system was full before and is full after: another fault fills it."""
    other = room(None, 3, None)
    assert receipt_of(before=other, after=other, undone=other).clean is True
    assert receipt_of(before=other, after=other, undone=room(4096, 3, {})).clean is False


def kills(*turns: str | None):
    """A turn is the process that was killed, or None: nobody was there."""
    fault = {
        "kind": "process.kill", "name": "worker",
        "schedule": {"pulse": {"on": "1s", "off": "1s", "times": len(turns)}},
    }  # fmt: skip
    experiment = Experiment.model_validate({**EXPERIMENT, "fault": fault})
    item = disturbance("fault", 1, experiment.disturbances["fault"])
    plan = compile_plan(experiment, [item])
    events: list[dict[str, Any]] = []
    for cycle, comm in enumerate(turns):
        sent = [{"pid": 100 + cycle, "start_time": cycle, "comm": comm, "sent": True}] if comm else []
        said = {"event": "applied", "ok": True} if comm else {"event": "applied", "ok": False, "nobody": "none there"}
        told = {"before": [], "during": sent, "after": sent, "undone": []}
        for label, victims in told.items():
            text = json.dumps({"sent": victims, "alive": [], "now": []})
            reading = {"at": 0, "outputs": {"victims": {"exit": 0, "out": text}}}
            events.append({"event": "reading", "fault": "fault", "cycle": cycle, "label": label, "reading": reading})
        events.append({**said, "fault": "fault", "cycle": cycle, "since": 2.0 * cycle, "outputs": []})
        events.append({"event": "undone", "fault": "fault", "cycle": cycle, "ok": True, "until": 2.0 * cycle + 1})
    return receipt(item, plan, events)


def test_a_turn_that_found_nobody_is_told_and_the_others_count():
    found = kills("worker", None, "worker")
    assert (found.apply_ok, found.in_force, found.acted, found.clean, found.cycles) == (True, True, 2, True, 3)
    assert "turn 2 of 3 passed: none there" in found.notes
    assert [(held.asked_s, held.had_s) for held in found.held] == [(1.0, 1.0), (None, None), (1.0, 1.0)]


def test_nobody_in_any_turn_is_no_fault():
    found = kills(None, None)
    assert (found.apply_ok, found.in_force, found.acted) == (False, False, 0)
    assert not any("passed" in note for note in found.notes)
