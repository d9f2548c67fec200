"""A fault with a schedule: its moments, carried out beside the steps of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stormcell.guest.acts import Act, Emit
from stormcell.guest.offspring import Child
from stormcell.guest.running import Run, Runnery


def work(name: str, planned: Mapping[str, Any], began: float) -> Callable[[Child], None]:
    """For an Offspring. `began` is the run's time at which the schedule starts."""

    def carry_out(child: Child) -> None:
        run: Run = Runnery(child.lifeline).run
        emit: Emit = child.emit
        act = Act(name, planned, run, emit, child.lifeline.now)
        moments = planned["moments"]
        try:
            for number, moment in enumerate(moments):
                child.lifeline.sleep(max(0.0, began + moment["at_s"] - child.lifeline.now()))
                child.emit("moment", fault=name, number=number, do=moment["do"], level=moment["level"])
                _perform(child, act, moment)
            if act.begun:
                child.lifeline.sleep(max(0.0, began + planned["over_s"] - child.lifeline.now()))
                child.emit("over", fault=name)
                child.lifeline.sleep(None)
        finally:
            child.lifeline.closing = True
            if act.begun:
                act.end()

    return carry_out


def _perform(child: Child, act: Act, moment: Mapping[str, Any]) -> None:
    if moment["do"] == "apply":
        act.begin(moment["level"])
    elif moment["do"] == "change":
        act.change(moment["level"])
    else:
        child.lifeline.closing = True  # an undo is not left half-way
        act.end()
        child.lifeline.closing = False
