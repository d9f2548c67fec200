"""What a few samples can say about many: proportions and quantiles, each with an interval. Tests: significance.py.

Everything here is pure and draws from a seed, so that a verdict can be computed again.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence

from stormcell.guest.measure import quantile

Z_95 = 1.959963984540054
"""The two-sided 95 % point of the normal distribution."""

ROUNDS = 2000
"""Resamples of a bootstrap; the ends of a 95 % interval then rest on 50 each."""

FEWEST = 6
"""Of fewer independent values not even their whole range holds the median in 95 % of all cases (1 - 2 * 0.5 ** n)."""

WIDE = 0.5
"""An interval of a proportion that is wider than this says next to nothing."""

Interval = tuple[float, float]
Statistic = Callable[[Sequence[float]], float | None]

__all__ = [
    "FEWEST", "ROUNDS", "WIDE", "Z_95", "Interval", "Statistic", "bootstrap", "bootstrap_difference",
    "bootstrap_quantiles", "mean", "newcombe", "quantile", "quantile_of", "smallest_count", "wilson",
]  # fmt: skip


def wilson(good: int, total: int, z: float = Z_95) -> Interval | None:
    """The score interval of a success rate (Wilson, 1927), 0 to 1. None of nothing.

    Unlike the textbook interval it does not collapse to a point when all of few attempts succeeded.
    """
    if total <= 0:
        return None
    rate = good / total
    scale = 1 + z * z / total
    middle = (rate + z * z / (2 * total)) / scale
    half = z / scale * math.sqrt(rate * (1 - rate) / total + z * z / (4 * total * total))
    low = 0.0 if good == 0 else max(0.0, middle - half)
    return low, 1.0 if good == total else min(1.0, middle + half)


def newcombe(good: int, total: int, other_good: int, other_total: int, z: float = Z_95) -> Interval | None:
    """Interval of `good / total - other_good / other_total`, -1 to 1 (Newcombe, 1998, method 10). None of nothing."""
    one, other = wilson(good, total, z), wilson(other_good, other_total, z)
    if one is None or other is None:
        return None
    p, q = good / total, other_good / other_total
    low = p - q - math.hypot(p - one[0], other[1] - q)
    high = p - q + math.hypot(one[1] - p, q - other[0])
    return max(-1.0, low), min(1.0, high)


def smallest_count(per_cent: int) -> int:
    """How many values it takes until the nearest-rank quantile is not simply the largest of them."""
    return -(-100 // (100 - per_cent))


def mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return math.fsum(values) / len(values) if values else None


def quantile_of(per_cent: int) -> Statistic:
    """The nearest-rank quantile as a statistic: `bootstrap(runs, quantile_of(95))`."""
    return lambda values: quantile(values, per_cent)


def bootstrap(
    groups: Sequence[Sequence[float]],
    statistic: Statistic,
    *,
    seed: int = 0,
    rounds: int = ROUNDS,
    level: float = 0.95,
) -> Interval | None:
    """Percentile interval (Efron, 1979) of `statistic` over all values of `groups`. None when nothing was measured.

    A group is what one run measured. Values of one run resemble each other, so with several groups whole groups are
    drawn; a single group is taken apart, and its interval then speaks of that run alone. Of fewer than FEWEST groups
    (or values, of a single group) the interval is too narrow: say so beside it. It never reaches beyond the smallest
    and largest value.
    """
    draw = _drawer(groups, random.Random(seed))
    if draw is None:
        return None
    found = [value for _ in range(rounds) if (value := statistic(draw())) is not None]
    return _middle(found, level)


def bootstrap_quantiles(
    groups: Sequence[Sequence[float]],
    per_cents: Sequence[int],
    *,
    seed: int = 0,
    rounds: int = ROUNDS,
    level: float = 0.95,
) -> list[Interval | None]:
    """`bootstrap` of several nearest-rank quantiles from the same draws, each of which is sorted once."""
    draw = _drawer(groups, random.Random(seed))
    if draw is None:
        return [None for _ in per_cents]
    found: list[list[float]] = [[] for _ in per_cents]
    for _ in range(rounds):
        drawn = sorted(draw())
        for mine, per_cent in zip(found, per_cents, strict=True):
            mine.append(drawn[max(1, -(-len(drawn) * per_cent // 100)) - 1])
    return [_middle(mine, level) for mine in found]


def bootstrap_difference(
    groups: Sequence[Sequence[float]],
    others: Sequence[Sequence[float]],
    statistic: Statistic,
    *,
    seed: int = 0,
    rounds: int = ROUNDS,
    level: float = 0.95,
) -> Interval | None:
    """Percentile interval of `statistic(groups) - statistic(others)`, each side drawn by itself as `bootstrap` does."""
    rng = random.Random(seed)
    draw, other = _drawer(groups, rng), _drawer(others, rng)
    if draw is None or other is None:
        return None
    found = []
    for _ in range(rounds):
        one, two = statistic(draw()), statistic(other())
        if one is not None and two is not None:
            found.append(one - two)
    return _middle(found, level)


def _drawer(groups: Sequence[Sequence[float]], rng: random.Random) -> Callable[[], list[float]] | None:
    """Draws with replacement: whole groups, or the values of the only one. Groups without a value are left out."""
    kept = [list(group) for group in groups if group]
    if not kept:
        return None
    if len(kept) == 1:
        return lambda: rng.choices(kept[0], k=len(kept[0]))
    return lambda: [value for group in rng.choices(kept, k=len(kept)) for value in group]


def _middle(found: list[float], level: float) -> Interval | None:
    """The middle `level` of what was found, by nearest rank."""
    if not found:
        return None
    found.sort()
    out = int((1 - level) / 2 * len(found))
    return found[out], found[-1 - out]
