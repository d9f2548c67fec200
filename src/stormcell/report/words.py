"""Bounded words: what guests, files and users wrote, before it enters the model."""

from __future__ import annotations

import json
import math
from typing import Any

from stormcell.judge.wording import percent
from stormcell.spec.text import clipped, printable

NOTHING = "\N{EN DASH}"
"""Stands where there is no number."""
NAME, LINE, TEXT, RAW = 120, 400, 2000, 20_000
"""Characters of a name, of one line, of a paragraph, and of raw data behind a fold."""


def words(value: object, limit: int = TEXT) -> str:
    """One line."""
    return printable(clipped(" ".join(clipped(str(value), 4 * limit).split()), limit))


def lines(value: object, limit: int = RAW) -> str:
    """Several lines, as they are."""
    return printable(clipped(str(value), limit))


def raw_json(value: Any) -> tuple[str, int]:
    """Indented JSON, its beginning when it is long, and its whole length."""
    text = json.dumps(value, indent=1, default=str)
    return lines(text), len(text)


def number(value: object) -> float | None:
    """A finite number that a program wrote, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        found = float(value)
    except OverflowError:
        return None
    return found if math.isfinite(found) else None


def plain(value: float | None) -> str:
    """A number of the kernel: whole ones in groups of three."""
    if value is None or not math.isfinite(value):
        return ""
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.6g}"


def between(interval: tuple[float, float] | None) -> str:
    """An interval of a share."""
    return f"{percent(interval[0])} to {percent(interval[1])}" if interval else ""
