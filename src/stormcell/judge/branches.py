"""The answer of an experiment with branches: each machine's own, and how it differs from the control's. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stormcell.judge import significance
from stormcell.judge.case import Case, build
from stormcell.judge.differences import deviates, differences
from stormcell.judge.verdict import judge
from stormcell.judge.wording import plain, signed
from stormcell.spec.comparison import Comparison, Difference
from stormcell.spec.plan import MomentStep, Plan
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import (
    CONTROL,
    EXIT_CODE,
    PRECEDENCE,
    BranchResult,
    FaultResult,
    Reason,
    Result,
    Verdict,
)

MOST_NAMED = 2
"""Differences in one sentence; the table has all."""
LEARNT = (Verdict.SURVIVED, Verdict.FAILED)


@dataclass(frozen=True)
class Told:
    """All that is kept of one machine. `missing`: it was to be run and there is nothing of it."""

    plan: Plan
    events: Sequence[Mapping[str, Any]] = ()
    receipts: Mapping[str, Receipt] = field(default_factory=dict)

    def result(self) -> Result:
        """Its own answer."""
        return judge(self.plan, self.events, self.receipts)

    def case(self) -> Case:
        """Its measurements."""
        return build(self.plan, self.events, self.receipts)


def judge_branches(drive: Told, branches: Mapping[str, Told], folders: Mapping[str, str]) -> Result:
    """The verdict on the whole: never better than the drive's and the control's. `branches` holds the control, too;
    who is not in it was not run."""
    driven = drive.result()
    if driven.verdict is not Verdict.SURVIVED:
        return driven.model_copy(update={"cannot_know": _cannot_know(driven, {}, 0), "probes": (), "faults": ()})
    results = {name: told.result() for name, told in branches.items()}
    control = results.get(CONTROL)
    rows, tests = _compared(branches, results)
    found = {
        name: BranchResult(
            name=name,
            result=result,
            deviates=_deviates(name, result, [row for row in rows if row.branch == name]),
            folder=folders.get(name, ""),
        )
        for name, result in results.items()
    }
    verdict, reasons = _verdict(drive.plan, found, rows)
    surprises = [result.surprise for name, result in results.items() if name != CONTROL and result.surprise is not None]
    learnt = verdict in LEARNT
    return driven.model_copy(
        update={
            "verdict": verdict,
            "reasons": reasons,
            "surprise": any(surprises) if surprises and learnt else None,
            "faults": tuple(_faults(found)),
            "cannot_know": _cannot_know(driven, results, tests),
            "branches": tuple(found.values()),
            "comparison": Comparison(
                moment=_moment(drive.plan),
                control=str(control.verdict) if control else "",
                alpha=significance.ALPHA,
                tests=tests,
                rows=tuple(rows),
            ),
        }
    )


def _compared(branches: Mapping[str, Told], results: Mapping[str, Result]) -> tuple[list[Difference], int]:
    """With a control that survived, those from which something was learnt."""
    control = results.get(CONTROL)
    if control is None or control.verdict is not Verdict.SURVIVED:
        return [], 0
    cases = {
        name: told.case() for name, told in branches.items() if name != CONTROL and results[name].verdict in LEARNT
    }
    return differences(branches[CONTROL].case(), cases)


def _deviates(name: str, result: Result, rows: Sequence[Difference]) -> bool | None:
    return deviates(rows) if name != CONTROL and result.verdict in LEARNT else None


def _verdict(
    plan: Plan, found: Mapping[str, BranchResult], rows: Sequence[Difference]
) -> tuple[Verdict, tuple[Reason, ...]]:
    absent = [name for name in plan.branches if name not in found]
    control = found.get(CONTROL)
    if control is None:
        return Verdict.UNKNOWN, (Reason(code="no_control", text="the control was not run: there is no comparison"),)
    if control.result.verdict is not Verdict.SURVIVED:
        unknown = control.result.verdict is Verdict.UNKNOWN
        code = "control_unknown" if unknown else "control_failed"
        text = f"the control, to which nothing was done, came out {control.result.verdict}: {_why(control.result)}"
        more = f"; not run after that: {', '.join(absent)}" if absent else ""
        return Verdict.UNKNOWN if unknown else Verdict.VOID, (Reason(code=code, text=text + more),)
    reasons = [
        (branch.result.verdict, Reason(code=f"branch_{branch.result.verdict}", text=_sentence(branch, rows)))
        for branch in found.values()
        if not branch.control
    ]
    reasons += [
        (Verdict.UNKNOWN, Reason(code="branch_unknown", text=f"branch '{name}' was not run")) for name in absent
    ]
    if not reasons:
        return Verdict.UNKNOWN, (Reason(code="no_branch", text="no branch was run"),)
    ordered = sorted(reasons, key=lambda item: PRECEDENCE.index(EXIT_CODE[item[0]]))
    return ordered[0][0], tuple(reason for _, reason in ordered)


def _sentence(branch: BranchResult, rows: Sequence[Difference]) -> str:
    result = branch.result
    head = f"branch '{branch.name}' {_came_out(result)}"
    if result.verdict not in LEARNT:
        return head
    mine = [row for row in rows if row.branch == branch.name]
    telling = [row for row in mine if row.deviates]
    if telling:
        more = f"; and {len(telling) - MOST_NAMED} more" if len(telling) > MOST_NAMED else ""
        named = "; ".join(_difference(row) for row in telling[:MOST_NAMED])
        return f"{head}; it deviates from the control: {named}{more}"
    if not mine:
        return f"{head}; nothing was measured while its fault was in force, so that there is no comparison"
    if not any(row.test for row in mine):
        return f"{head}; nothing that it measured can be tested against the control"
    if branch.deviates is None:
        few = f"{mine[0].samples} against {mine[0].control_samples}"
        return f"{head}; whether it deviates from the control cannot be said from so few samples ({few})"
    return f"{head}; no difference from the control was found"


def _came_out(result: Result) -> str:
    return "survived" if result.verdict is Verdict.SURVIVED else f"{_was(result.verdict)}: {_why(result)}"


def _was(verdict: Verdict) -> str:
    return "failed" if verdict is Verdict.FAILED else f"is {verdict}"


def _why(result: Result) -> str:
    return result.reasons[0].text if result.reasons else "no reason was given"


def _difference(row: Difference) -> str:
    sides = f"{plain(row.unit, row.control)} -> {plain(row.unit, row.measured)}"
    interval = ""
    if row.difference is not None and row.low is not None and row.high is not None:
        low, high = signed(row.unit, row.low), signed(row.unit, row.high)
        interval = f" ({signed(row.unit, row.difference)}, 95 % interval {low} to {high})"
    p = f", p = {row.p:.2g}" if row.p is not None else ""
    return f"{row.probe} {row.metric} {sides}{interval}{p}"


def _faults(found: Mapping[str, BranchResult]) -> Iterator[FaultResult]:
    """Of all branches, called by the branch."""
    for name, branch in found.items():
        for fault in branch.result.faults:
            several = len(branch.result.faults) > 1
            yield fault.model_copy(update={"fault": f"{name}.{fault.fault}" if several else name})


def _moment(plan: Plan) -> str:
    step = next((step for step in plan.steps if isinstance(step, MomentStep)), None)
    return step.text if step else "the loads run"


def _cannot_know(driven: Result, results: Mapping[str, Result], tests: int) -> tuple[str, ...]:
    found = list(_about_branches(results, tests)) if results else []
    for result in (driven, *results.values()):
        found += result.cannot_know
    return tuple(dict.fromkeys(found))


def _about_branches(results: Mapping[str, Result], tests: int) -> Iterator[str]:
    yield (
        "All branches went on from one instant of one machine: what differs at another instant, or in another machine, "
        "was not seen."
    )
    yield (
        "Attempts of one run resemble each other, and the tests take them for independent: a small p speaks of these "
        "two machines, and repeats of the whole speak of the fault."
    )
    yield (
        "Branches ran one after another or side by side on one host: what else the host did meanwhile was not the same "
        "for each."
    )
    if tests:
        yield f"No difference found is no proof of none: the intervals say how large one may be ({tests} tests)."
