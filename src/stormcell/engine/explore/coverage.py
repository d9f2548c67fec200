"""How much of the space was tried, and with what outcome. Pure.

A list is covered value by value, a range in equal stretches of the way from its harmless end to the other. For pairs
of dimensions it is counted which combinations of values (or stretches) were met. Seeds are samples: when none of n
broke, the share of seeds that would is below 1 - 0.05^(1/n) with 95 % confidence (Clopper and Pearson, 1934).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stormcell.engine.explore.space import Case, Dimension, Space
from stormcell.spec.verdict import Verdict

STRETCHES = 10
MOMENT = "moment of the act"
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Tried:
    """One run of the search."""

    number: int
    case: Case
    verdict: Verdict
    why: str
    guest_seconds: float
    host_seconds: float


@dataclass(frozen=True)
class Share:
    """Of one dimension, or of the combinations of two."""

    name: str
    over: str
    parts: int
    met: int
    failed: int
    """Parts in which a run failed."""

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {"name": self.name, "over": self.over, "parts": self.parts, "met": self.met, "failed": self.failed}


@dataclass(frozen=True)
class Coverage:
    """What was tried: runs by verdict, and shares of the space."""

    counts: dict[str, int]
    seeds: int
    bound: float | None
    """The share of cases like these that may break even so; None when one did, or nothing was learnt."""
    dimensions: tuple[Share, ...]
    pairs: tuple[Share, ...]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "runs": self.counts,
            "seeds": self.seeds,
            "undetected_share_below": self.bound,
            "confidence": CONFIDENCE,
            "dimensions": [share.as_dict() for share in self.dimensions],
            "pairs": [share.as_dict() for share in self.pairs],
        }


def coverage(space: Space, tried: Sequence[Tried]) -> Coverage:
    """Of what was learnt from: a void or unknown run covers nothing."""
    learnt = [one for one in tried if one.verdict in (Verdict.SURVIVED, Verdict.FAILED)]
    counts = {str(verdict): sum(one.verdict is verdict for one in tried) for verdict in Verdict}
    axes = [*space.dimensions, *([_moments(space)] if space.window else [])]
    failed = any(one.verdict is Verdict.FAILED for one in learnt)
    return Coverage(
        counts=counts,
        seeds=len({one.case.seed for one in learnt}),
        bound=None if failed or not learnt else 1 - (1 - CONFIDENCE) ** (1 / len(learnt)),
        dimensions=tuple(_share(space, (axis,), learnt) for axis in axes),
        pairs=tuple(_share(space, pair, learnt) for pair in itertools.combinations(axes, 2)),
    )


def _moments(space: Space) -> Dimension:
    return Dimension(MOMENT)


def _share(space: Space, axes: Sequence[Dimension], learnt: Sequence[Tried]) -> Share:
    met: set[tuple[int, ...]] = set()
    failed: set[tuple[int, ...]] = set()
    for one in learnt:
        part = tuple(_part(space, axis, one.case) for axis in axes)
        met.add(part)
        if one.verdict is Verdict.FAILED:
            failed.add(part)
    parts = 1
    for axis in axes:
        parts *= len(axis.values) or STRETCHES
    over = "combinations" if len(axes) > 1 else _over(space, axes[0])
    return Share(" x ".join(axis.name for axis in axes), over, parts, len(met), len(failed))


def _over(space: Space, axis: Dimension) -> str:
    if axis.name == MOMENT and space.window:
        return f"{space.window[0]:g} s to {space.window[1]:g} s, in {STRETCHES} stretches"
    return axis.text if axis.values else f"{axis.text}, in {STRETCHES} stretches"


def _part(space: Space, axis: Dimension, case: Case) -> int:
    if axis.name == MOMENT and space.window:
        low, high = space.window
        return min(int((case.at - low) / (high - low) * STRETCHES), STRETCHES - 1)
    return min(int(case.place(axis.name) * (len(axis.values) or STRETCHES)), (len(axis.values) or STRETCHES) - 1)
