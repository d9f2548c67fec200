"""From what a run's folder holds to a Run of the model. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from stormcell.engine.sealed.bundle import Sealed
from stormcell.judge.case import Case, build
from stormcell.judge.wording import seconds as duration
from stormcell.report.chain import NAMES, chain
from stormcell.report.clock import Clock
from stormcell.report.evidence import Link, Timeline, Why
from stormcell.report.measured import spreads, table
from stormcell.report.model import Run
from stormcell.report.moved import proof
from stormcell.report.sealed import sealed_run
from stormcell.report.timeline import timeline
from stormcell.report.words import LINE, NAME, TEXT, number, words
from stormcell.spec.plan import Plan
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import Result

MOST_REASONS = 20
MOST_LIMITS = 60


def story(
    plan: Plan,
    events: Sequence[Mapping[str, Any]],
    receipts: Mapping[str, Receipt],
    result: Result,
    *,
    folder: str = "",
    source: str = "",
    remark: str = "",
    sealed: Sealed | None = None,
) -> Run:
    """All of one run. `remark` is what a reader must know about the result beside its own reasons.

    Never raises: of events and receipts that contradict their plan the verdict remains, and why there is no more.
    """
    bare = _bare(plan, result, folder, source, remark)
    if plan.sealed:
        bare = replace(bare, sealed=sealed_run(sealed or Sealed.unknown(plan), folder))
    try:
        found = _with_evidence(bare, plan, events, receipts, result)
        return replace(found, began=words(sealed.began, 40) if sealed else "") if plan.sealed else found
    except Exception as error:
        said = f"what it measured cannot be shown: {type(error).__name__}: {error}"
        return replace(bare, reasons=(*bare.reasons, Why("not_shown", words(said, TEXT))))


def _bare(plan: Plan, result: Result, folder: str, source: str, remark: str) -> Run:
    reasons = [Why(words(r.code, NAME), words(r.text, TEXT)) for r in result.reasons[:MOST_REASONS]]
    if len(result.reasons) > MOST_REASONS:
        reasons.append(Why("more", f"{len(result.reasons) - MOST_REASONS} more reasons are in the run's result.json"))
    if remark:
        reasons.append(Why("remark", words(remark, TEXT)))
    return Run(
        name=words(plan.experiment, NAME),
        source=words(source, LINE),
        question=words(plan.question, TEXT),
        verdict=str(result.verdict),
        reasons=tuple(reasons),
        predicted=_predicted(result),
        surprise=result.surprise,
        began="",
        seconds=0.0,
        chain=tuple(Link(name, "unknown", "") for name in NAMES),
        timeline=None,
        spreads=(),
        measured=(),
        proofs=(),
        cannot_know=tuple(words(said, TEXT) for said in result.cannot_know[:MOST_LIMITS]),
        facts=(),
        folder=words(folder, LINE),
    )


def _with_evidence(
    bare: Run,
    plan: Plan,
    events: Sequence[Mapping[str, Any]],
    receipts: Mapping[str, Receipt],
    result: Result,
) -> Run:
    case = build(plan, events, receipts)
    clock = Clock(case.events)
    drawn = timeline(case, clock)
    if drawn is not None:
        drawn = replace(drawn, guest_time=plan.sealed)
    return replace(
        bare,
        began=_began(case),
        seconds=clock.end,
        chain=chain(case, result),
        timeline=drawn,
        spreads=tuple(replace(item, guest_time=plan.sealed) for item in spreads(case)),
        measured=tuple(table(case)),
        proofs=tuple(proof(receipt) for receipt in case.receipts.values()),
        cannot_know=(*_not_drawn(drawn), *bare.cannot_know),
        facts=tuple(_facts(plan, case, clock, result)),
    )


def _predicted(result: Result) -> str:
    if result.prediction is None:
        return ""
    probe = f" ({words(result.prediction.probe, NAME)})" if result.prediction.probe else ""
    return f"{result.prediction.verdict}{probe}"


def _began(case: Case) -> str:
    for event in case.of("begin", "guest"):
        wall = number(event.get("wall"))
        if wall is not None and 0 <= wall < 1e11:
            return datetime.fromtimestamp(wall, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return ""


def _not_drawn(drawn: Timeline | None) -> list[str]:
    """What the page itself leaves out."""
    if drawn is None:
        return ["The runner in the guest never began: nothing was measured."]
    return [
        f"The timeline draws {len(lane.dots):,} of {lane.samples:,} samples of '{lane.probe}'; "
        "the numbers rest on all of them."
        for lane in drawn.probes
        if len(lane.dots) < lane.samples
    ]


def _facts(plan: Plan, case: Case, clock: Clock, result: Result) -> list[tuple[str, str]]:
    digest = f" ({plan.template_digest[:12]})" if plan.template_digest else ""
    guest = [duration(result.guest_seconds)] if result.guest_seconds is not None else []
    runners = [str(result.info["runners"])] if result.info.get("runners", 1) != 1 else []
    wall = ("wall time", f"{duration(clock.end)}, of which the guest {guest[0]}" if guest else duration(clock.end))
    found = [
        ("template", words(f"{plan.template}{digest}", LINE)),
        ("seed", str(plan.seed)),
        *([] if plan.sealed else [wall]),
        ("events", f"{len(case.events):,}"),
    ]
    return found + [("runners", f"{text} (the machine was booted again)") for text in runners]
