"""How long a fault was in force, from the events of its acts and undos. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stormcell.spec.plan import Plan, PlannedFault
from stormcell.spec.receipt import Held
from stormcell.spec.schedule import Disturbance


def held(item: Disturbance, plan: Plan, mine: Iterable[Mapping[str, Any]]) -> tuple[Held, ...]:
    """One for each act and change of the plan, in order. `mine` are the events of this fault.

    It counts from when the act was done (its last command had ended) to when the undo, or the next change, began: the
    fault was in force for at least so long.
    """
    since: dict[int, float] = {}
    until: dict[int, float] = {}
    passed = set()
    for event in mine:
        cycle = event.get("cycle") or 0
        if event.get("event") == "applied" and event.get("nobody"):
            passed.add(cycle)  # nobody was there to act on, so nothing could be in force
        if event.get("event") == "applied" and event.get("ok"):
            _note(since, cycle, event.get("since"))
            if cycle - 1 not in until:
                _note(until, cycle - 1, event.get("tried"))
        elif event.get("event") == "undone":
            _note(until, cycle, event.get("until"))
    asked = [None if n in passed else length for n, length in enumerate(_asked(plan.faults[item.id]))]
    if not item.schedule and not since:
        return ()
    return tuple(
        Held(cycle=cycle, level=level, asked_s=length, had_s=_between(since.get(cycle), until.get(cycle)))
        for cycle, (length, level) in enumerate(zip(asked, _levels(item, plan.faults[item.id]), strict=True))
    )


def _asked(planned: PlannedFault) -> list[float | None]:
    """Seconds of every act or change; the last one's end may be the undo step."""
    ends = [*(moment.at_s for moment in planned.moments[1:]), planned.over_s]
    return [
        round(end - moment.at_s, 6) if end > moment.at_s else None
        for moment, end in zip(planned.moments, ends, strict=False)
        if moment.do != "undo"
    ] or [None]


def _levels(item: Disturbance, planned: PlannedFault) -> list[str]:
    ramp = item.schedule.ramp if item.schedule else None
    turns = [moment for moment in planned.moments if moment.do != "undo"]
    if ramp is None or not planned.levels:
        return [""] * max(1, len(turns))
    return [f"{ramp.parameter} {ramp.through[moment.level]}" for moment in turns]


def _note(times: dict[int, float], cycle: Any, at: Any) -> None:
    if isinstance(cycle, int) and isinstance(at, int | float) and not isinstance(at, bool):
        times[cycle] = float(at)


def _between(since: float | None, until: float | None) -> float | None:
    return round(until - since, 6) if since is not None and until is not None and until >= since else None
