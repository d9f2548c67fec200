"""The rules of the verdict, as a table in order. The first rule that finds something decides."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

from stormcell.judge.case import ABORTED, Case
from stormcell.judge.leftovers import left_behind
from stormcell.judge.probes import Measurement
from stormcell.judge.times import missed, too_short
from stormcell.judge.wording import PHASES, broken, seconds
from stormcell.spec.plan import (
    ApplyStep,
    InventoryStep,
    MachineStep,
    MomentStep,
    ProbeStep,
    QuietStep,
    RecoverStep,
    UndoStep,
)
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import Verdict


@dataclass(frozen=True)
class Rule:
    """`find` yields a sentence with numbers for everything that it objects to."""

    verdict: Verdict
    code: str
    find: Callable[[Case], Iterator[str]]


HOST_LOSSES = ("guest_lost", "guest_protocol", "host_error", "runner_gone")
STOPS = (
    "setup_failed",
    "no_moment",
    "unsupported",
    "load_failed",
    "apply_failed",
    "broken_before",
    "measured_nothing",
    "ttl",
    "abort_unreadable",
    "aborted_before",
)
"""Early ends after which a run is void. ABORTED is a finding; every other one leaves the outcome unknown."""


def _lost(code: str, case: Case) -> Iterator[str]:
    for event in case.of("lost", "host"):
        if event.get("code") == code:
            yield str(event.get("text") or code)
    for event in case.stops:
        if event.get("code") == code:
            yield f"the runner in the guest stopped: {event.get('text')}"


def _interrupted(case: Case) -> Iterator[str]:
    yield from _lost("interrupted", case)
    for event in case.of("interrupted", "host"):
        yield str(event.get("text") or "the run was interrupted on the host")


def _lost_otherwise(case: Case) -> Iterator[str]:
    known = (*HOST_LOSSES, "deadline", "interrupted")
    for event in case.of("lost", "host"):
        if event.get("code") not in known:
            yield str(event.get("text") or "the outcome was lost")
    for event in case.stops:
        if event.get("code") not in (*STOPS, ABORTED, *known, "runner_error"):
            yield f"the runner stopped for a reason that is not known here ({event.get('code')}): {event.get('text')}"


def _no_end(case: Case) -> Iterator[str]:
    if not case.segments:
        yield "the runner in the guest never began"
    elif not case.ended:
        step = next((e.get("step") for segment in case.segments for e in reversed(segment) if e.get("step")), None)
        yield f"the runner's last word was not 'end'; it was at step '{step}'"


def _incomplete(case: Case) -> Iterator[str]:
    """In a run that was not stopped, every planned measurement and act has its event."""
    if case.stops or not case.ended:
        return
    measured = {m.step.id for m in case.measurements}
    done = {
        (kind, on): {event.get("fault") for event in case.of(kind, on)}
        for kind in ("applied", "undone")
        for on in ("guest", "host")
    }
    for step in case.plan.steps:
        if isinstance(step, ProbeStep | RecoverStep) and step.id not in measured:
            yield f"there is no measurement of step '{step.id}'"
        elif isinstance(step, ApplyStep | UndoStep):
            kind = "applied" if isinstance(step, ApplyStep) else "undone"
            if step.fault not in done[kind, step.on]:
                yield f"there is no event '{kind}' of '{step.fault}'"
        elif isinstance(step, InventoryStep):
            if not any(event.get("label") == step.label for event in case.of("inventory", "guest")):
                yield f"there is no inventory '{step.label}'"
        elif isinstance(step, QuietStep):
            if not case.of("noise", "guest"):
                yield "it is not known what the schedule noise did"
        elif isinstance(step, MomentStep):
            if not any(event.get("step") == step.id for event in case.of("moment", step.on)):
                yield "it is not known whether the moment came"
        elif isinstance(step, MachineStep):
            known = case.machine(step)
            if "act" not in known:
                yield f"there is no event of the act on the machine ('{step.fault}')"
            if step.boot and "booted" not in known:
                if "not_booted" not in known and not _still_alive(case, step):
                    yield "it is not known whether the machine started again"
                return  # nothing after it could be measured


def _still_alive(case: Case, step: MachineStep) -> bool:
    receipt = case.receipts.get(step.fault)
    return receipt is not None and receipt.in_force is False


def _stopped(code: str, case: Case) -> Iterator[str]:
    for event in case.stops:
        if event.get("code") == code:
            yield str(event.get("text") or code)


def _unsupported(case: Case) -> Iterator[str]:
    told = list(_stopped("unsupported", case))
    yield from told
    if not told:
        for fault, receipt in case.receipts.items():
            if receipt.missing:
                yield f"{case.called(fault)} cannot be done in this guest: {'; '.join(receipt.missing)}"


def _broken_before(case: Case) -> Iterator[str]:
    for m in case.phase("before"):
        if m.measured and not m.result.holds:
            yield _sentence(m)


def _measured_nothing(case: Case) -> Iterator[str]:
    for m in case.phase("before", "under", "recovery"):
        if not m.measured:
            yield f"probe '{m.step.probe}' measured nothing {PHASES[m.step.phase]} ({m.sent} attempts)"
    if case.plan.role == "drive":
        return
    phases = {step.phase for step in case.plan.steps if isinstance(step, ProbeStep | RecoverStep)}
    on_guest = case.plan.role == "control" or any(isinstance(step, ApplyStep) for step in case.planned_faults.values())
    if ("under" if on_guest else "recovery") not in phases:
        yield f"the plan measures nothing {'under the fault' if on_guest else 'after the fault'}"


def _no_fault(case: Case) -> Iterator[str]:
    if not case.planned_faults and not case.noisy and case.plan.role not in ("drive", "control"):
        yield "the plan has no fault: nothing was asked of the system"


def _apply_failed(case: Case) -> Iterator[str]:
    told = list(_stopped("apply_failed", case))
    yield from told
    if not told:
        for fault in case.begun_faults:
            if (receipt := case.receipts.get(fault)) and receipt.apply_ok is False:
                said = receipt.applied[-1].err.strip() if receipt.applied else ""
                yield f"{case.called(fault)} could not be applied: {said}"


def _not_in_force(case: Case) -> Iterator[str]:
    for fault, receipt in case.begun:
        if receipt.in_force is False:
            yield f"the kernel does not show {case.called(fault)} in force as it was asked for"


def _never_acted(case: Case) -> Iterator[str]:
    for fault, receipt in case.begun:
        if receipt.acted is not None and receipt.acted <= 0:
            yield f"{case.called(fault)} touched nothing: 0 {receipt.counts}"
    if not case.planned_faults and case.noisy and case.ended:
        for event in case.of("noise", "guest"):
            if event.get("met") in (0, None):
                yield "the schedule noise met no thread of the workload that was running or ready"


def _receipt_missing(case: Case) -> Iterator[str]:
    if not case.ended or any(event.get("code") != ABORTED for event in case.stops):
        return
    for fault in case.begun_faults:
        receipt = case.receipts.get(fault)
        if case.cut_short(fault):
            continue  # the condition was met in the middle of the act: `aborted` says so
        if receipt is None:
            yield f"there is no receipt of {case.called(fault)}"
            continue
        undone = fault in case.undone_faults
        needed = {"in force": receipt.in_force, "acted": receipt.acted}
        needed |= {"clean": receipt.clean, "undone": receipt.undo_ok} if undone else {}
        absent = [name for name, value in needed.items() if value is None]
        if absent:
            what = f"{', '.join(absent)} (readings: {_labels(receipt)})"
            yield f"the receipt of {case.called(fault)} does not say: {what}"


def _aborted(case: Case) -> Iterator[str]:
    """Once a fault was begun. One that was being begun at that moment has no complete receipt, and that is told."""
    cut = [case.called(fault) for fault in case.begun_faults if case.cut_short(fault)]
    for text in _stopped(ABORTED, case):
        if case.receipt_written:
            yield f"{text}; it was met while {' and '.join(cut)} was being put in force" if cut else text


def _aborted_before(case: Case) -> Iterator[str]:
    yield from _stopped("aborted_before", case)
    for text in _stopped(ABORTED, case):
        if not case.receipt_written:
            yield f"{text}: that was before any fault was begun, so that none is the cause"


def _disagree(case: Case) -> Iterator[str]:
    for m in case.measurements:
        if not m.agrees:
            yield (
                f"step '{m.step.id}': guest and host disagree about probe '{m.step.probe}'; "
                f"from its samples the host computes that it {'holds' if m.result.holds else 'does not hold'}"
            )
    for code, phase_broken in (("broken_before", _broken_before), ("measured_nothing", _measured_nothing)):
        for event in case.stops:
            if event.get("code") == code and not any(phase_broken(case)):
                yield f"the guest stopped with '{code}', which its samples do not show: {event.get('text')}"


def _not_undone(case: Case) -> Iterator[str]:
    for fault, receipt in case.begun:
        if fault not in case.undone_faults:
            continue
        if receipt.undo_ok is False:
            yield f"the undo of {case.called(fault)} failed"
        if receipt.clean is False:
            yield f"something of {case.called(fault)} is left after the undo"


def _out_of_bounds(case: Case) -> Iterator[str]:
    for m in case.phase("under"):
        if m.measured and not m.result.holds:
            yield _sentence(m)


def _recovery_failed(case: Case) -> Iterator[str]:
    for m in case.phase("recovery"):
        if not m.measured or (m.result.holds and m.in_time) or not isinstance(m.step, RecoverStep):
            continue
        limit, after = seconds(m.step.within_s), seconds(m.result.seconds or 0)
        if m.result.holds:
            yield f"probe '{m.step.probe}' held again only {after} after the undo (limit {limit})"
        else:
            yield f"{_sentence(m)}, still {after} after the undo (limit {limit})"


def _not_booted(case: Case) -> Iterator[str]:
    for step in case.planned_faults.values():
        if isinstance(step, MachineStep) and (text := case.machine(step).get("not_booted")) is not None:
            yield f"the machine did not start again within {seconds(step.boot_within_s)}: {text}"


def _labels(receipt: Receipt) -> str:
    return ", ".join(receipt.readings) or "none"


def _sentence(m: Measurement) -> str:
    what = broken(m.planned.kind, m.result.checks) or "it has no bounds"
    return f"probe '{m.step.probe}' {PHASES[m.step.phase]}, from the {m.planned.seen_from}: {what} (n = {m.sent})"


RULES: tuple[Rule, ...] = (
    Rule(Verdict.UNKNOWN, "interrupted", _interrupted),
    Rule(Verdict.UNKNOWN, "deadline", partial(_lost, "deadline")),
    *(Rule(Verdict.UNKNOWN, code, partial(_lost, code)) for code in HOST_LOSSES),
    Rule(Verdict.UNKNOWN, "lost", _lost_otherwise),
    Rule(Verdict.UNKNOWN, "runner_error", partial(_lost, "runner_error")),
    Rule(Verdict.UNKNOWN, "events_malformed", lambda case: iter(case.malformed)),
    Rule(Verdict.UNKNOWN, "no_end", _no_end),
    Rule(Verdict.UNKNOWN, "incomplete", _incomplete),
    Rule(Verdict.VOID, "setup_failed", partial(_stopped, "setup_failed")),
    Rule(Verdict.VOID, "no_moment", partial(_stopped, "no_moment")),
    Rule(Verdict.VOID, "unsupported", _unsupported),
    Rule(Verdict.VOID, "load_failed", partial(_stopped, "load_failed")),
    Rule(Verdict.VOID, "broken_before", _broken_before),
    Rule(Verdict.VOID, "measured_nothing", _measured_nothing),
    Rule(Verdict.VOID, "no_fault", _no_fault),
    Rule(Verdict.VOID, "abort_unreadable", partial(_stopped, "abort_unreadable")),
    Rule(Verdict.VOID, "aborted_before", _aborted_before),
    Rule(Verdict.VOID, "ttl", partial(_stopped, "ttl")),
    Rule(Verdict.VOID, "apply_failed", _apply_failed),
    Rule(Verdict.VOID, "not_in_force", _not_in_force),
    Rule(Verdict.VOID, "never_acted", _never_acted),
    Rule(Verdict.VOID, "missed", missed),
    Rule(Verdict.VOID, "too_short", too_short),
    Rule(Verdict.VOID, "receipt_missing", _receipt_missing),
    Rule(Verdict.VOID, "guest_disagrees", _disagree),
    Rule(Verdict.FAILED, "not_recovered", _not_undone),
    Rule(Verdict.FAILED, "left_behind", left_behind),
    Rule(Verdict.FAILED, "not_booted", _not_booted),
    Rule(Verdict.FAILED, ABORTED, _aborted),
    Rule(Verdict.FAILED, "out_of_bounds", _out_of_bounds),
    Rule(Verdict.FAILED, "recovery_failed", _recovery_failed),
)
"""Order is precedence. A code belongs to one verdict for ever: programs rely on it."""
