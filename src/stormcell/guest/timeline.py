"""A fault with a schedule: its moments, carried out beside the steps of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stormcell.guest.acts import Act, Emit
from stormcell.guest.offspring import Child
from stormcell.guest.running import Runnery


def work(name: str, planned: Mapping[str, Any], began: float) -> Callable[[Child], None]:
    """For an Offspring. `began` is the run's time at which the schedule starts."""

    def carry_out(child: Child) -> None:
        run_all = Runnery(child.lifeline).run_all
        emit: Emit = child.emit
        act = Act(name, planned, run_all, emit, child.lifeline.now)
        moments = planned["moments"]
        done, before = began, 0.0
        try:
            for number, moment in enumerate(moments):
                due = when(moment, began, done, before) if number else began + moment["at_s"]
                _sleep_until(child, due - _lead(act, moment, due - done))
                child.emit("moment", fault=name, number=number, do=moment["do"], level=moment["level"])
                _perform(child, act, moment, due)
                done = child.lifeline.now() if moment["do"] == "undo" else act.in_force_at
                before = moment["at_s"]
            if act.begun:
                _sleep_until(child, done + planned["over_s"] - before)
                child.emit("over", fault=name)
                child.lifeline.sleep(None)
        finally:
            child.lifeline.closing = True
            if act.begun:
                act.end()

    return carry_out


def when(moment: Mapping[str, Any], began: float, done: float, before: float) -> float:
    """The time of a turn: `done` is when the one before it was, and `before` when that was planned (`Moment`)."""
    return float(began + moment["at_s"] if moment.get("counted") == "start" else done + moment["at_s"] - before)


def _lead(act: Act, moment: Mapping[str, Any], length: float) -> float:
    """The reading that comes before an undo or a change is begun so much earlier, for these to be in time."""
    return 0.0 if moment["do"] == "apply" else min(act.reading_s, length / 2)


def _perform(child: Child, act: Act, moment: Mapping[str, Any], due: float) -> None:
    def pause() -> None:
        _sleep_until(child, due)

    if moment["do"] == "apply":
        act.begin(moment["level"])
    elif moment["do"] == "change":
        act.change(moment["level"], pause)
    else:
        child.lifeline.closing = True  # an undo is not left half-way
        act.end(pause)
        child.lifeline.closing = False


def _sleep_until(child: Child, moment: float) -> None:
    child.lifeline.sleep(max(0.0, moment - child.lifeline.now()))
