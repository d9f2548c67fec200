"""Branches of one instant as people read them: each one's fate, and how it differs from the control."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stormcell.cli.progress import MARK
from stormcell.judge.wording import plain, signed
from stormcell.spec.comparison import Comparison, Difference
from stormcell.spec.verdict import BranchResult, Result

if TYPE_CHECKING:
    from stormcell.cli.screen import Screen

FATES = ("branch", "fault", "verdict", "deviates", "the kernel's proof", "predicted")
DIFFERENCES = ("branch", "probe", "control", "branch has", "difference", "95 % interval", "p", "n", "deviates")
SAID = {True: "yes", False: "no", None: "cannot be said"}
TESTS = {"fisher": "Fisher's exact test for success rates", "mann-whitney": "Mann and Whitney's for latencies"}


def show_branches(console: Screen, result: Result) -> None:
    """Two tables."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in FATES:
        table.add_column(heading, no_wrap=heading in ("branch", "fault", "verdict"))
    for branch in result.branches:
        name, kinds, verdict, *rest = fate(branch)
        style = MARK[verdict]
        table.add_row(escape(name), kinds, f"[{style}]{verdict}[/{style}]", *(escape(cell) for cell in rest))
    console.print()
    console.print(table)
    found = result.comparison
    if found is None or not found.rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in DIFFERENCES:
        table.add_column(heading, no_wrap=heading in ("branch", "probe"))
    for row in found.rows:
        table.add_row(*(escape(cell) for cell in cells(row)))
    console.print(f"\n[bold]against the control[/bold], under the fault, from the instant when {escape(found.moment)}")
    console.print(table)
    console.print(f"[dim]{escape(tests(found))}[/dim]", soft_wrap=True)


def fate(branch: BranchResult) -> tuple[str, str, str, str, str, str]:
    """One cell for each of FATES."""
    from stormcell.cli.results import prediction, proofs

    result = branch.result
    kinds = ", ".join(fault.kind for fault in result.faults) or ("none" if branch.control else "")
    deviates = "" if branch.control else SAID[branch.deviates]
    proof = "" if branch.control else proofs(result)
    return branch.name, kinds, str(result.verdict), deviates, proof, prediction(result)


def cells(row: Difference) -> tuple[str, ...]:
    """One cell for each of DIFFERENCES."""
    interval = ""
    if row.low is not None and row.high is not None:
        interval = f"{signed(row.unit, row.low)} to {signed(row.unit, row.high)}"
    return (
        row.branch,
        f"{row.probe} {row.metric}",
        plain(row.unit, row.control),
        plain(row.unit, row.measured),
        signed(row.unit, row.difference) if row.difference is not None else "",
        interval,
        f"{row.p:.2g}" if row.p is not None else "",
        f"{row.control_samples}, {row.samples}",
        "; ".join(part for part in (SAID[row.deviates] if row.test else "", row.note) if part),
    )


def tests(found: Comparison) -> str:
    """What was computed, in a sentence."""
    used = {row.test for row in found.rows if row.test}
    named = [text for test, text in TESTS.items() if test in used]
    many = f"p corrected for {found.tests} tests (Holm), below {found.alpha:g} deviates" if found.tests else ""
    return "; ".join(part for part in (*named, many) if part)
