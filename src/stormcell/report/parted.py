"""The branches of one instant, for the model: each one's own run, and how they differ from the control."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stormcell.judge.wording import plain
from stormcell.report.compare import Comparison, Difference
from stormcell.report.model import Branch, Run
from stormcell.report.words import LINE, NAME, words
from stormcell.spec import comparison as found
from stormcell.spec.verdict import BranchResult, Result

TEST = "Fisher's exact test for success rates, Mann and Whitney's for latencies; corrected for {} tests (Holm)."
SCALES = {"ratio": (100.0, "%"), "duration": (1000.0, "ms")}


def branches(folder: Path, result: Result, load_run: Callable[[Path], Run]) -> tuple[Branch, ...]:
    """Each from its own folder. Raises SpecError for one that is damaged."""
    return tuple(
        Branch(words(branch.name, NAME), branch.control, branch.deviates, load_run(folder / branch.folder))
        for branch in result.branches
    )


def comparison(result: Result) -> Comparison | None:
    """Against the control, metric by metric; None when nothing could be compared."""
    if result.comparison is None or not result.comparison.rows:
        return None
    of = {branch.name: branch for branch in result.branches}
    return Comparison(
        title="Against the control",
        moment=words(result.comparison.moment, LINE),
        control=result.comparison.control,
        test=TEST.format(result.comparison.tests),
        rows=tuple(_difference(row, of[row.branch]) for row in result.comparison.rows),
    )


def _difference(row: found.Difference, branch: BranchResult) -> Difference:
    scale, unit = SCALES.get(row.unit, (1.0, ""))
    return Difference(
        branch=words(row.branch, NAME),
        fault=words(", ".join(fault.kind for fault in branch.result.faults), NAME),
        verdict=str(branch.result.verdict),
        metric=words(f"{row.probe} {row.metric}", NAME),
        control=words(plain(row.unit, row.control), NAME),
        measured=words(plain(row.unit, row.measured), NAME),
        difference=_scaled(row.difference, scale),
        low=_scaled(row.low, scale),
        high=_scaled(row.high, scale),
        unit=unit,
        p=row.p,
        deviates=row.deviates,
        samples=f"n = {row.samples} and {row.control_samples}",
        note=words(row.note, LINE),
    )


def _scaled(value: float | None, scale: float) -> float | None:
    return None if value is None else value * scale
