"""From a run's events to its receipts: the fault's own judgement of the kernel's answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from stormcell.engine.held import held
from stormcell.spec.fault import Command, Fault, Output, Reading
from stormcell.spec.plan import Plan
from stormcell.spec.receipt import Receipt
from stormcell.spec.schedule import Disturbance


def receipt(item: Disturbance, plan: Plan, events: Iterable[Mapping[str, Any]]) -> Receipt:
    """What the events say about one fault. A reading that is missing or torn leaves its judgement None.

    A fault with a schedule acts several times: it was in force when it was each time, it acted as often as all the
    times together, it is clean when it is so after every undo. Readings after the first cycle are named `LABEL.CYCLE`.
    A turn that found nobody to act on is left out and told in the notes, unless all of them are such.
    """
    fault = item.fault
    mine = [event for event in events if event.get("fault") == fault.id]
    cycles = _cycles(item, mine)
    passed = _passed(mine)
    tried = [event for event in mine if event.get("event") == "applied"]
    acts = [event for event in tried if _whole(event.get("cycle")) not in passed]
    if not acts:
        acts, passed = tried, {}
    applied = _last(acts, "applied")
    turns = sum(moment.do == "apply" for moment in plan.faults[fault.id].moments)
    written = _last(mine, "receipt")
    missing = _last(mine, "needs")
    return Receipt(
        fault=fault.id,
        kind=fault.kind,
        params=fault.params(),
        counts=fault.counts,
        undo=_commands(written.get("undo")) if written else plan.faults[fault.id].undo,
        missing=tuple(str(m) for m in (missing or {}).get("missing", ())),
        applied=_outputs((applied or {}).get("outputs")),
        apply_ok=_all_ok(acts, "applied"),
        undo_ok=_all_ok(mine, "undone"),
        readings={
            label if not number else f"{label}.{number}": reading
            for number, cycle in cycles.items()
            for label, reading in cycle.readings.items()
        },
        in_force=_all(cycle.in_force for number, cycle in cycles.items() if number not in passed),
        acted=_total(cycles.values()),
        clean=_all(cycle.clean for cycle in cycles.values() if not cycle.changed_on),
        cycles=len(cycles) if item.schedule else 0,
        held=held(item, plan, mine),
        notes=(*_notes(cycles), *(f"turn {n + 1} of {turns} passed: {why}" for n, why in passed.items())),
    )


def in_force(fault: Fault, before: Reading, during: Reading, after: Reading | None) -> bool:
    """When it began, and still when it was about to be undone."""
    return fault.in_force(before, during) and (after is None or fault.lasted(before, during, after))


@dataclass(frozen=True)
class _Cycle:
    """From one act, or change in place, to the next; `changed_on`: a change ended it, so nothing was undone then."""

    fault: Fault
    readings: dict[str, Reading]
    changed_on: bool

    @property
    def in_force(self) -> bool | None:
        before, during, after = (self.readings.get(label) for label in ("before", "during", "after"))
        if before is None or during is None:
            return None
        return in_force(self.fault, before, during, after)

    @property
    def clean(self) -> bool | None:
        before, undone = self.readings.get("before"), self.readings.get("undone")
        if not before or not undone:
            return None
        # all as it was: of a fault that was refused, another one's doing may be in both
        return before.outputs == undone.outputs or self.fault.clean(before, undone)

    @property
    def notes(self) -> tuple[str, ...]:
        before, during, after = (self.readings.get(label) for label in ("before", "during", "after"))
        return self.fault.notes(before, during, after)


def _cycles(item: Disturbance, mine: list[Mapping[str, Any]]) -> dict[int, _Cycle]:
    readings: dict[int, dict[str, Reading]] = {}
    levels: dict[int, int] = {}
    for event in mine:
        if event.get("event") == "reading" and "label" in event:
            number = _whole(event.get("cycle"))
            readings.setdefault(number, {})[str(event["label"])] = _reading(event)
            levels[number] = _whole(event.get("level"))
    found = {}
    for number, labels in sorted(readings.items()):
        level = levels[number]
        fault = item.levels[level] if level < len(item.levels) else item.fault
        changed_on = "undone" not in labels and number + 1 in readings
        found[number] = _Cycle(fault, labels, changed_on)
    return found


def _passed(mine: list[Mapping[str, Any]]) -> dict[int, str]:
    """Cycles that found nobody, and what was said of it."""
    told = (event for event in mine if event.get("event") == "applied" and event.get("nobody"))
    return {_whole(event.get("cycle")): str(event["nobody"]) for event in told}


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and value >= 0 else 0


def _total(cycles: Iterable[_Cycle]) -> int | None:
    """Of what is counted from an act on, the last reading before the undo tells all: a change does not reset it."""
    total: int | None = None
    first: Reading | None = None
    for cycle in cycles:
        first = first or cycle.readings.get("during")
        if cycle.changed_on:
            continue
        after = cycle.readings.get("after")
        if first is not None and after is not None:
            total = (total or 0) + max(0, cycle.fault.acted(first, after))
        first = None
    return total


def _all(judged: Iterable[bool | None]) -> bool | None:
    """False when one is, None when one is not known or there is none."""
    known = list(judged)
    if False in known:
        return False
    return None if not known or None in known else True


def _all_ok(mine: list[Mapping[str, Any]], kind: str) -> bool | None:
    said = [bool(event["ok"]) for event in mine if event.get("event") == kind and "ok" in event]
    return all(said) if said else None


def _notes(cycles: Mapping[int, _Cycle]) -> tuple[str, ...]:
    """Of every cycle, by its number when there are several; the first and the last few of many."""
    if len(cycles) <= 1:
        return next((cycle.notes for cycle in cycles.values()), ())
    said = [f"{number + 1}: {note}" for number, cycle in cycles.items() for note in cycle.notes]
    head = f"it acted {len(cycles)} times"
    return (head, *said) if len(said) <= 24 else (head, *said[:12], f"({len(said) - 24} more)", *said[-12:])


def _last(events: list[Mapping[str, Any]], kind: str) -> Mapping[str, Any] | None:
    return next((event for event in reversed(events) if event.get("event") == kind), None)


def _reading(event: Mapping[str, Any]) -> Reading:
    try:
        return Reading.model_validate(event.get("reading"))
    except ValidationError:
        return Reading()


def _outputs(raw: Any) -> tuple[Output, ...]:
    try:
        return tuple(Output.model_validate(item) for item in raw or ())
    except (ValidationError, TypeError):
        return ()


def _commands(raw: Any) -> tuple[Command, ...]:
    try:
        return tuple(Command.model_validate(item) for item in raw or ())
    except (ValidationError, TypeError):
        return ()
