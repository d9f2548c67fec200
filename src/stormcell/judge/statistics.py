"""What a few samples can say about many."""

from __future__ import annotations

import math

Z_95 = 1.959963984540054
"""The two-sided 95 % point of the normal distribution."""


def wilson(good: int, total: int, z: float = Z_95) -> tuple[float, float] | None:
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


def smallest_count(per_cent: int) -> int:
    """How many values it takes until the nearest-rank quantile is not simply the largest of them."""
    return -(-100 // (100 - per_cent))
