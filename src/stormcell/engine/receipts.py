"""From a run's events to its receipts: the fault's own judgement of the kernel's answers. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from stormcell.spec.fault import Command, Fault, Output, Reading
from stormcell.spec.plan import Plan
from stormcell.spec.receipt import Receipt


def receipt(fault_id: str, fault: Fault, plan: Plan, events: Iterable[Mapping[str, Any]]) -> Receipt:
    """What the events say about one fault. A reading that is missing or torn leaves its judgement None."""
    mine = [event for event in events if event.get("fault") == fault_id]
    readings = {str(e["label"]): _reading(e) for e in mine if e.get("event") == "reading" and "label" in e}
    applied = _last(mine, "applied")
    undone = _last(mine, "undone")
    written = _last(mine, "receipt")
    missing = _last(mine, "needs")
    before, during = readings.get("before"), readings.get("during")
    after, clean = readings.get("after"), readings.get("undone")
    return Receipt(
        fault=fault_id,
        kind=fault.kind,
        params=fault.params(),
        counts=fault.counts,
        undo=_commands(written.get("undo")) if written else plan.faults[fault_id].undo,
        missing=tuple(str(m) for m in (missing or {}).get("missing", ())),
        applied=_outputs((applied or {}).get("outputs")),
        apply_ok=bool(applied["ok"]) if applied and "ok" in applied else None,
        undo_ok=bool(undone["ok"]) if undone and "ok" in undone else None,
        readings=readings,
        in_force=_in_force(fault, before, during, after),
        acted=max(0, fault.acted(during, after)) if during and after else None,
        clean=fault.clean(before, clean) if before and clean else None,
        notes=fault.notes(before, during, after),
    )


def _in_force(fault: Fault, before: Reading | None, during: Reading | None, after: Reading | None) -> bool | None:
    """In force means: when it began, and still when it was about to be undone."""
    if before is None or during is None:
        return None
    return fault.in_force(before, during) and (after is None or fault.lasted(before, during, after))


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
