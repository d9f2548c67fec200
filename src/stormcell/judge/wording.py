"""Numbers as people read them."""

from __future__ import annotations

import re

from stormcell.spec.probe import METRICS
from stormcell.spec.verdict import Check

PHASES = {"before": "before the fault", "under": "under the fault", "recovery": "after the undo"}

GUEST_TIME = "guest time: 2 ns for each instruction of the guest, and what it waited; not this machine's speed"
"""What the star behind a time of a sealed run stands for."""
_TIME = re.compile(r"(?<![\w.])(\d[\d,.]*(?:e[-+]?\d+)? (?:us|ms|s))(?![\w*])")


def starred(text: str) -> str:
    """With a star behind every time that was measured; bounds are written without a space and have none."""
    return _TIME.sub(r"\1*", text)


def quantity(kind: str, metric: str, value: float | None) -> str:
    """A measurement in the unit of its metric, rounded for reading."""
    return plain(METRICS[kind][metric].unit if metric in METRICS[kind] else "number", value)


def plain(unit: str, value: float | None) -> str:
    """The same, of a unit."""
    if value is None:
        return "not measured"
    if unit == "ratio":
        return percent(value)
    if unit == "duration":
        return seconds(value)
    if unit == "bool":
        return "true" if value else "false"
    return f"{value:,.0f} B" if unit == "size" else f"{value:g}"


def percent(value: float) -> str:
    """0.9875 is `98.75 %`; a rate that is not whole is never rounded up to 100 %."""
    text = f"{value * 100:.4g}"
    return f"{'99.99' if text == '100' and value < 1 else text} %"


def seconds(value: float) -> str:
    """0.0123 is `12.3 ms`."""
    if value == 0:
        return "0 s"
    if value < 1e-3:
        return f"{value * 1e6:.3g} us"
    return f"{value * 1e3:.3g} ms" if value < 0.9995 else f"{value:.4g} s"


def signed(unit: str, value: float) -> str:
    """A difference in the metric's own unit."""
    sign = "-" if value < 0 else "+"
    size = abs(value)
    if unit == "ratio":
        return f"{sign}{size * 100:.3g} %"
    return f"{sign}{seconds(size)}" if unit == "duration" else f"{sign}{size:g}"


def broken(kind: str, checks: tuple[Check, ...]) -> str:
    """The checks that do not hold, with their numbers."""
    parts = [f"{c.metric} {quantity(kind, c.metric, c.measured)}, wanted {c.wanted}" for c in checks if not c.holds]
    return "; ".join(parts)
