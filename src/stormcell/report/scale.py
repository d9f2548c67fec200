"""From values to places on paper, with ticks at round numbers. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Linear:
    """`low` is at `start`, `high` at `end`; what lies outside is put on the edge."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value."""
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Round numbers, at most about `most`."""
        width = self.high - self.low
        if not (math.isfinite(width) and width > 0):
            return [self.low]
        step = 10.0 ** math.floor(math.log10(width / most))
        step *= next((factor for factor in (1, 2, 5, 10) if width / (step * factor) <= most), 10)
        first = math.ceil(self.low / step - 1e-9)
        return [round(step * n, 12) for n in range(first, first + most + 2) if step * n <= self.high + step * 1e-9]


@dataclass(frozen=True)
class Log:
    """As Linear, by orders of magnitude: latencies span them."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        """The place of a value; nothing and less is at the low end."""
        if value <= self.low or self.high <= self.low:
            return self.start
        share = (math.log10(value) - math.log10(self.low)) / (math.log10(self.high) - math.log10(self.low))
        return self.start + min(1.0, share) * (self.end - self.start)

    def ticks(self, most: int) -> list[float]:
        """Powers of ten, with 2 and 5 or 3 between them where there is room."""
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        for factors in ((1, 2, 5), (1, 3), (1,)):
            found = [f * 10.0**n for n in range(first, last + 1) for f in factors]
            inside = [value for value in found if self.low * 0.999 <= value <= self.high * 1.001]
            if len(inside) <= most:
                break
        return inside[:: max(1, -(-len(inside) // most))]


def log_for(values: Sequence[float], start: float, end: float) -> Log:
    """Room for all positive values of up to 12 orders of magnitude, from a thousandth to one when there are none."""
    known = [value for value in values if 1e-9 < value < 1e9]
    low, high = (min(known), max(known)) if known else (1e-3, 1.0)
    low = max(low, high * 1e-12)
    if high < low * 4:
        low, high = low / 2, high * 2
    return Log(low / 1.15, high * 1.25, start, end)
