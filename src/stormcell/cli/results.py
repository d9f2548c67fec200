"""Verdicts as people read them: one table for many runs, one page for a single one."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from stormcell.cli.branches import show_branches
from stormcell.cli.progress import MARK
from stormcell.engine.api import Outcome
from stormcell.engine.sealed.bundle import known
from stormcell.judge.wording import GUEST_TIME, seconds, starred
from stormcell.spec.probe import METRICS
from stormcell.spec.receipt import Held
from stormcell.spec.verdict import FaultResult, ProbeResult, Result, Verdict

if TYPE_CHECKING:
    from stormcell.cli.screen import Screen

UNITS = {metric: entry.unit for known in METRICS.values() for metric, entry in known.items()}
HEADINGS = ("experiment", "fault", "verdict", "the kernel's proof", "what was measured", "predicted")
TIMES = "guest time : host time"
"""The heading of one more column where a run was sealed."""
MOST_CYCLES = 12
PHASE = {"before": "before", "under": "under the fault", "recovery": "recovery"}


def show_results(outcomes: Sequence[Outcome]) -> None:
    """One run in full, several as a table."""
    if len(outcomes) == 1:
        show_result(outcomes[0].result, outcomes[0].folder)
    elif outcomes:
        _show_table(outcomes)


def headings(outcomes: Sequence[Outcome]) -> tuple[str, ...]:
    """Of a table of these."""
    return (*HEADINGS, TIMES) if _any_sealed(outcomes) else HEADINGS


def row(outcome: Outcome, *, times: bool = False) -> tuple[str, ...]:
    """One cell for each of HEADINGS, and with `times` one more."""
    result = outcome.result
    told = (
        result.experiment,
        ", ".join(fault.kind for fault in result.faults),
        str(result.verdict),
        said(result, proofs(result)),
        said(result, _measured(result)),
        prediction(result),
    )
    return (*told, _times(outcome)) if times else told


def said(result: Result, text: str) -> str:
    """A text of this result: its times have a star when they are guest time."""
    return starred(text) if result.instruction_time else text


def _any_sealed(outcomes: Sequence[Outcome]) -> bool:
    return any(outcome.result.instruction_time for outcome in outcomes)


def _times(outcome: Outcome) -> str:
    sealed = known(outcome.folder) if outcome.result.instruction_time else None
    if sealed is None or not sealed.host_seconds:
        return ""
    return f"{seconds(sealed.guest_seconds)}* : {seconds(sealed.host_seconds)} = {sealed.ratio:.3g}"


def proofs(result: Result) -> str:
    """Of all its faults."""
    several = len(result.faults) > 1
    said = [f"{fault.fault}: {_proof(fault)}" if several else _proof(fault) for fault in result.faults]
    return "; ".join(said) or _proof(None)


def markdown_table(outcomes: Sequence[Outcome]) -> str:
    """The table for a README."""
    heads, sealed = headings(outcomes), _any_sealed(outcomes)
    lines = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for outcome in outcomes:
        cells = (cell.replace("|", "\\|").replace("*", "\\*") for cell in row(outcome, times=sealed))
        name, kind, verdict, *rest = cells
        lines.append(f"| {name} | `{kind}` | **{verdict}** | {' | '.join(rest)} |")
    return "\n".join([*lines, "", f"\\* {GUEST_TIME}"] if sealed else lines)


def _console() -> Screen:
    """Without a terminal there is no width to fit into; lines then stay whole for grep and diff."""
    from stormcell.cli.screen import Screen

    return Screen(piped=200)


def _show_table(outcomes: Sequence[Outcome]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    sealed = _any_sealed(outcomes)
    for heading in headings(outcomes):
        table.add_column(heading, no_wrap=heading in ("experiment", "fault", "verdict"))
    for outcome in outcomes:
        name, kind, verdict, *rest = row(outcome, times=sealed)
        style = MARK[verdict]
        table.add_row(escape(name), kind, f"[{style}]{verdict}[/{style}]", *(escape(cell) for cell in rest))
    console = _console()
    console.print(table)
    if sealed:
        console.print(f"\n[dim]* {GUEST_TIME}[/dim]", soft_wrap=True)
    console.print(f"\nruns in {escape(str(outcomes[0].folder.parent))}", soft_wrap=True)


def show_result(result: Result, folder: Path) -> None:
    """All that one run found, and what it cannot know."""
    from rich.markup import escape
    from rich.table import Table

    console = _console()
    style = MARK[str(result.verdict)]
    console.print(
        f"[{style} bold]{result.verdict}[/{style} bold]  {escape(result.experiment)}  {escape(result.question)}"
    )
    for reason in result.reasons:
        console.print(f"  {escape(said(result, reason.text))}  [dim]({reason.code})[/dim]")
    if result.prediction is not None:
        console.print(f"  predicted: {escape(prediction(result))}")
    sealed = known(folder) if result.instruction_time else None
    if sealed is not None:
        console.print(f"  sealed: {sealed.sentence}")
    if result.branches:
        show_branches(console, result)
    for fault in () if result.branches else result.faults:
        named = f"{fault.fault}: " if len(result.faults) > 1 else ""
        console.print(f"\n[bold]{escape(named)}{fault.kind}[/bold]  {escape(_proof(fault))}")
        for line in (*_held(fault), *fault.notes):
            console.print(f"  {escape(said(result, line))}")
    if result.probes:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("probe", "from", "phase", "n", "measured", "holds"):
            table.add_column(heading)
        for probe in result.probes:
            holds = "[green]yes[/green]" if probe.holds else "[red]no[/red]"
            phase = PHASE.get(probe.phase, probe.phase)
            if probe.seconds is not None:
                phase += said(result, f" after {probe.seconds:.1f} s")
            checks = escape(said(result, _checks(probe)))
            table.add_row(escape(probe.probe), probe.vantage, phase, str(probe.samples), checks, holds)
        console.print()
        console.print(table)
    if result.cannot_know:
        console.print("\n[bold]what this run cannot know[/bold]")
        for sentence in result.cannot_know:
            console.print(f"  - {escape(said(result, sentence))}")
    if result.instruction_time:
        console.print(f"\n[dim]* {GUEST_TIME}[/dim]", soft_wrap=True)
    console.print(f"\nfolder {escape(str(folder))}", soft_wrap=True)
    if sealed is not None:
        console.print(f"repeat {escape(f'stormcell run --replay {shlex.quote(str(folder))}')}", soft_wrap=True)


def _held(fault: FaultResult) -> list[str]:
    """How long each level or cycle of a schedule was in force."""
    known = [held for held in fault.held if held.asked_s is not None]
    lines = [f"{_cycle(held, len(known))}: {_span(held)}" for held in known[:MOST_CYCLES]]
    return lines if len(known) <= MOST_CYCLES else [*lines, f"({len(known) - MOST_CYCLES} more)"]


def _cycle(held: Held, of: int) -> str:
    return held.level or ("in force" if of == 1 else f"in force, time {held.cycle + 1}")


def _span(held: Held) -> str:
    had = "never" if held.had_s is None else _number(held.had_s, "duration")
    return f"asked {_number(held.asked_s, 'duration')}, had {had}"


def _proof(fault: FaultResult | None) -> str:
    if fault is None or fault.in_force is None:
        return "no complete receipt"
    if not fault.in_force:
        return "not in force"
    left = {True: ", nothing left", False: ", not clean after the undo", None: ""}[fault.clean]
    return f"{fault.acted if fault.acted is not None else '?'} {fault.counts}{left}"


def _measured(result: Result) -> str:
    """What decided: the reason where nothing was learnt or it failed, else how the numbers moved."""
    if result.branches:
        return "; ".join(reason.text for reason in result.reasons)
    if result.verdict is not Verdict.SURVIVED:
        return result.reasons[0].text if result.reasons else ""
    phases: dict[tuple[str, str], dict[str, float | None]] = {}
    for probe in result.probes:
        for check in probe.checks:
            phases.setdefault((probe.probe, check.metric), {})[probe.phase] = check.measured
    parts = []
    for (name, metric), seen in phases.items():
        unit = UNITS.get(metric, "number")
        course = " -> ".join(_number(seen[phase], unit) for phase in PHASE if phase in seen)
        parts.append(f"{name} {metric} {course}")
    return "; ".join(parts)


def prediction(result: Result) -> str:
    """What was predicted, and whether it came otherwise."""
    if result.branches:
        said = ((branch.name, prediction(branch.result)) for branch in result.branches)
        return "; ".join(f"{name}: {text}" for name, text in said if text)
    if result.prediction is None:
        return ""
    predicted = result.prediction.verdict.value
    if result.prediction.probe:
        predicted += f" ({result.prediction.probe})"
    return f"{predicted}, surprise" if result.surprise else predicted


def _checks(probe: ProbeResult) -> str:
    parts = [
        f"{c.metric} {_number(c.measured, UNITS.get(c.metric, 'number'))} (wanted {c.wanted})" for c in probe.checks
    ]
    return ", ".join(parts)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    if unit == "duration":
        return f"{value:.2f} s" if value >= 1 else f"{value * 1000:.3g} ms"
    if unit == "ratio":
        return f"{value:.1%}".replace(".0%", "%")
    if unit == "bool":
        return "true" if value else "false"
    return f"{value:g}"
