"""The chain of a verdict: every link must be there before a run says anything about the system. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from stormcell.judge.case import Case
from stormcell.judge.probes import Measurement
from stormcell.judge.wording import quantity
from stormcell.report.evidence import Link, State
from stormcell.report.words import NAME, words
from stormcell.spec.plan import ApplyStep
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import Result

NAMES = ("before", "in force", "acted", "under", "after", "clean")
TITLES = {
    "before": "Held before",
    "in force": "Fault in force",
    "acted": "Fault acted",
    "under": "Held under it",
    "after": "Held after it",
    "clean": "Nothing left",
}


def chain(case: Case, result: Result) -> tuple[Link, ...]:
    """One link for each of NAMES."""
    begun = [receipt for fault, receipt in case.receipts.items() if fault in case.begun_faults]
    asked_under = any(isinstance(step, ApplyStep) for step in case.planned_faults.values())
    codes = {reason.code for reason in result.reasons}
    left = "left_behind" in codes
    undone = [receipt for receipt in begun if receipt.fault in case.undone_faults]
    if not case.planned_faults or (case.stops and not begun):
        return _without_a_fault(case)
    return (
        _held("before", case.phase("before"), asked=True),
        Link("in force", _all(begun, "in_force"), ", ".join(words(r.kind, NAME) for r in begun) or "no receipt"),
        _acted(begun),
        Link("under", "unknown", "no probe looked while it was in force")
        if "missed" in codes
        else _held("under", case.phase("under"), asked=asked_under),
        _held("after", case.phase("recovery"), asked=True),
        _clean(undone, begun, left=left),
    )


def _without_a_fault(case: Case) -> tuple[Link, ...]:
    """Of a control, which gets none, and of a run that was stopped before its fault was begun."""
    said = "never begun" if case.planned_faults else "no fault is planned"
    in_force, acted, clean = (Link(name, "none", said) for name in ("in force", "acted", "clean"))
    under, after = (
        _held(name, case.phase(phase), asked=False) for name, phase in (("under", "under"), ("after", "recovery"))
    )
    return _held("before", case.phase("before"), asked=True), in_force, acted, under, after, clean


def _held(name: str, measurements: Sequence[Measurement], *, asked: bool) -> Link:
    if not measurements:
        return Link(name, "unknown" if asked else "none", "not measured" if asked else "not asked for")
    broken = [m for m in measurements if not (m.measured and m.result.holds and m.in_time)]
    if not broken:
        return Link(name, "yes", f"{len(measurements)} of {len(measurements)} probes")
    first = broken[0]
    check = next((check for check in first.result.checks if not check.holds), None)
    said = f" {check.metric} {quantity(first.planned.kind, check.metric, check.measured)}" if check else ""
    return Link(name, "no", words(f"{first.step.probe}{said or ' too late'}", NAME))


def _acted(begun: Sequence[Receipt]) -> Link:
    counts = [receipt.acted for receipt in begun]
    state: State = "unknown"
    if counts and None not in counts:
        state = "yes" if all(count and count > 0 for count in counts) else "no"
    elif any(count == 0 for count in counts):
        state = "no"
    said = "; ".join(f"{'?' if r.acted is None else f'{r.acted:,}'} {r.counts}" for r in begun)
    return Link("acted", state, words(said or "no receipt", 200))


def _clean(undone: Sequence[Receipt], begun: Sequence[Receipt], *, left: bool) -> Link:
    if left:
        return Link("clean", "no", "the guest is not as it was")
    if begun and not undone:
        return Link("clean", "none", "not asked for")
    state = _all(undone, "clean")
    return Link("clean", state, {"yes": "as before the act", "no": "not clean after the undo"}.get(state, "not known"))


def _all(receipts: Sequence[Receipt], field: str) -> State:
    values = [getattr(receipt, field) for receipt in receipts]
    if False in values:
        return "no"
    return "yes" if values and None not in values else "unknown"
