"""Numbers as tc writes and shows them."""

from __future__ import annotations


def microseconds(seconds: float) -> str:
    """tc counts in ticks of 64 ns; whole microseconds are what it shows."""
    return f"{round(seconds * 1e6)}us"


def percent(value: float) -> str:
    """Without an exponent."""
    return f"{value:.6f}".rstrip("0").rstrip(".") + "%"


def close(shown: object, wanted: float, relative: float = 1e-5, absolute: float = 2e-6) -> bool:
    """What the kernel shows is what was asked for, but for its rounding (ticks, 32-bit fractions, six digits)."""
    return isinstance(shown, int | float) and abs(shown - wanted) <= max(absolute, relative * abs(wanted))
