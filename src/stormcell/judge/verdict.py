"""Plan, events and receipts in; the answer of the run out. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stormcell.judge import limits
from stormcell.judge.case import ABORTED, Case, build
from stormcell.judge.probes import failing
from stormcell.judge.rules import RULES
from stormcell.spec.plan import Plan
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import FaultResult, Reason, Result, Verdict


def judge(plan: Plan, events: Sequence[Mapping[str, Any]], receipts: Mapping[str, Receipt]) -> Result:
    """The verdict with every reason, the deciding ones first. Never raises: a judge that fails answers `unknown`."""
    try:
        return _result(build(plan, events, receipts))
    except Exception as error:
        text = f"the judge itself failed: {type(error).__name__}: {error}"
        return Result(
            experiment=plan.experiment,
            question=plan.question,
            verdict=Verdict.UNKNOWN,
            reasons=(Reason(code="judge_error", text=text),),
            prediction=plan.prediction,
            instruction_time=plan.sealed,
        )


def _result(case: Case) -> Result:
    found = [(rule, text) for rule in RULES for text in rule.find(case)]
    verdict = found[0][0].verdict if found else Verdict.SURVIVED
    reasons = tuple(Reason(code=rule.code, text=text) for rule, text in found) or (_survived(case),)
    plan = case.plan
    return Result(
        experiment=plan.experiment,
        question=plan.question,
        verdict=verdict,
        reasons=reasons,
        prediction=plan.prediction,
        surprise=_surprise(case, verdict),
        probes=tuple(m.result for m in case.measurements),
        faults=tuple(_fault(fault, receipt) for fault, receipt in case.receipts.items()),
        cannot_know=limits.sentences(case),
        aborted=any(event.get("code") == ABORTED for event in case.stops),
        guest_seconds=case.guest_seconds,
        instruction_time=plan.sealed,
        info=_info(case),
    )


def _survived(case: Case) -> Reason:
    if case.plan.role == "drive":
        text = next((f": {event.get('text')}" for event in case.events if event["event"] == "moment"), "")
        return Reason(code="moment", text=f"the machine came to its moment{text}")
    told = [f"{r.kind} was in force and acted ({r.acted} {r.counts})" for r in case.receipts.values()]
    told += [f"the schedule was disturbed at {e.get('met')} moments" for e in case.of("noise", "guest")]
    acted = ", ".join(told)
    names = ", ".join(sorted({m.step.probe for m in case.phase("under", "recovery")}))
    if case.plan.role == "control":
        return Reason(code="survived", text=f"every bound held, and nothing was done ({names})")
    phases = [("under", "under the fault"), ("recovery", "after it" if case.phase("under") else "after the fault")]
    when = " and ".join(words for phase, words in phases if case.phase(phase))
    return Reason(code="survived", text=f"every bound held {when} ({names}); {acted}")


def _surprise(case: Case, verdict: Verdict) -> bool | None:
    """A prediction is about the system; a run that is void or unknown says nothing about it."""
    predicted = case.plan.prediction
    if predicted is None or verdict not in (Verdict.SURVIVED, Verdict.FAILED):
        return None
    if predicted.verdict != verdict:
        return True
    return predicted.probe is not None and predicted.probe not in failing(case.measurements)


def _fault(fault: str, receipt: Receipt) -> FaultResult:
    return FaultResult(
        fault=fault,
        kind=receipt.kind,
        in_force=receipt.in_force,
        acted=receipt.acted,
        counts=receipt.counts,
        clean=receipt.clean,
        held=receipt.held,
        notes=receipt.notes,
    )


def _info(case: Case) -> dict[str, Any]:
    begins = case.of("begin", "guest")
    return {
        "runners": len(case.segments),
        "boot_ids": [str(event.get("boot_id")) for event in begins],
        "success_intervals": {m.step.id: list(m.interval) for m in case.measurements if m.interval is not None},
    }
