"""Whether two sides differ by more than chance: exact tests, and the correction for making many of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

ALPHA = 0.05
"""A difference is called one when its p, corrected for all comparisons made, is below this."""

EXACT = 40
"""Up to so many values together Mann and Whitney's test is computed exactly."""


@dataclass(frozen=True)
class Rank:
    """Mann and Whitney's test."""

    p: float
    """Two-sided."""
    above: float
    """Share of pairs in which the first side's value is the larger one, ties counted half: 0.5 is no difference."""
    exact: bool


def mann_whitney(values: Sequence[float], others: Sequence[float]) -> Rank | None:
    """Whether one side's values tend to be larger (Mann and Whitney, 1947). None when a side has no values.

    Exact over all ways to deal the values, ties included, for few of them; else the normal approximation with
    corrections for ties and for continuity. Values must be independent: give one a run where runs were repeated.
    """
    n, m = len(values), len(others)
    if not n or not m:
        return None
    ranks = _doubled_ranks([*values, *others])
    total = sum(ranks[:n])
    above = (total / 2 - n * (n + 1) / 2) / (n * m)
    if n + m <= EXACT:
        return Rank(_dealt(ranks, n, total), above, True)
    ties = sum(count**3 - count for count in Counter([*values, *others]).values())
    size = n + m
    variance = n * m / 12 * (size + 1 - ties / (size * (size - 1)))
    if variance <= 0:
        return Rank(1.0, above, False)
    distance = max(0.0, abs(total / 2 - n * (size + 1) / 2) - 0.5)
    return Rank(math.erfc(distance / math.sqrt(2 * variance)), above, False)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice the rank of each value, from 2 on; equal ones share the middle of theirs, which doubled is whole."""
    counts = Counter(values)
    ordered = sorted(counts)
    ends = accumulate(counts[value] for value in ordered)
    shared = {value: 2 * end - counts[value] + 1 for value, end in zip(ordered, ends, strict=True)}
    return [shared[value] for value in values]


def _dealt(ranks: Sequence[int], n: int, total: int) -> float:
    """Twice the smaller tail of the rank sum over all ways to choose `n` of the ranks."""
    ways: list[Counter[int]] = [Counter({0: 1}), *(Counter[int]() for _ in range(n))]
    for rank in ranks:
        for size in range(n, 0, -1):
            for sum_, count in ways[size - 1].items():
                ways[size][sum_ + rank] += count
    every = math.comb(len(ranks), n)
    low = sum(count for sum_, count in ways[n].items() if sum_ <= total)
    high = sum(count for sum_, count in ways[n].items() if sum_ >= total)
    return min(1.0, 2 * min(low, high) / every)


def fisher(good: int, total: int, other_good: int, other_total: int) -> float | None:
    """Two-sided p of two success rates being one (Fisher's exact test). None when a side has no attempts.

    It sums every table with these margins that is no likelier than the one seen.
    """
    if total <= 0 or other_total <= 0:
        return None
    both = good + other_good
    seen = math.comb(total, good) * math.comb(other_total, other_good)
    found = 0
    for first in range(max(0, both - other_total), min(total, both) + 1):
        ways = math.comb(total, first) * math.comb(other_total, both - first)
        found += ways if ways <= seen else 0
    return found / math.comb(total + other_total, both)


def holm(chances: Sequence[float]) -> list[float]:
    """p values corrected for having made all these comparisons (Holm, 1979), in the order given.

    Below ALPHA in here: the chance that any such claim of this family is wrong stays below ALPHA.
    """
    order = sorted(range(len(chances)), key=lambda index: chances[index])
    corrected = [0.0] * len(chances)
    so_far = 0.0
    for place, index in enumerate(order):
        so_far = max(so_far, min(1.0, (len(chances) - place) * chances[index]))
        corrected[index] = so_far
    return corrected


def least_p(n: int, m: int) -> float:
    """The smallest p that either test can give for sides of these sizes: complete separation.

    Times the number of comparisons at or above ALPHA, the samples are too few to find anything.
    """
    if n <= 0 or m <= 0:
        return 1.0
    return min(1.0, 2 / math.comb(n + m, n))
