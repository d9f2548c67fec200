"""A quantity whose unit is known only from what was written: `10ms`, `64MiB`, `5%`, `3`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stormcell.spec.units import (
    BITS_PER_SECOND,
    BYTES,
    NUMBER,
    PER_CENT,
    PER_SECOND,
    SECONDS,
    duration_text,
    parse,
    render,
    size_text,
)

_TEXT = re.compile(rf"\s*{NUMBER}\s*([A-Za-zµ%/]*)\s*\Z")


@dataclass(frozen=True)
class Family:
    """Units that measure the same. `whole`: only whole numbers of the smallest unit."""

    name: str
    units: Mapping[str, float]
    text: Callable[[float], str]
    whole: bool = False


def _duration(seconds: float) -> str:
    """`63.2ms` and not `63200us`, but `90s` and `2m` as they are."""
    unit, scale = next(((u, SECONDS[u]) for u in ("s", "ms", "us") if seconds >= SECONDS[u]), ("ns", 1e-9))
    short = f"{seconds / scale:.9g}{unit}"
    whole = duration_text(seconds)
    return whole if len(whole) <= len(short) else short


FAMILIES = (
    Family("duration", SECONDS, lambda value: _duration(round(value, 9))),
    Family("size", BYTES, lambda value: size_text(round(value)), whole=True),
    Family("bit rate", BITS_PER_SECOND, lambda value: render(round(value), BITS_PER_SECOND), whole=True),
    Family("percentage", PER_CENT, lambda value: f"{value:.9g}%"),
    Family("frequency", PER_SECOND, lambda value: f"{value:.9g}/s"),
)
_WHOLE = Family("whole number", {}, lambda value: str(round(value)), whole=True)
_PLAIN = Family("number", {}, lambda value: f"{value:.9g}")


@dataclass(frozen=True)
class Quantity:
    """A number in the base unit of its family (seconds, bytes, bits per second, per cent, per second)."""

    value: float
    family: Family

    @property
    def text(self) -> str:
        """As a spec would have it."""
        return self.family.text(self.value)

    @property
    def plain(self) -> str | int | float:
        """As a spec would hold it: text with a unit, or a number where there is none."""
        if self.family is _WHOLE:
            return round(self.value)
        return self.value if self.family is _PLAIN else self.text


def quantity(written: object) -> Quantity:
    """Read one. Raises ValueError for what is no number with a unit that exists."""
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        raise ValueError(f"{written!r} is no quantity; write for example '300ms', '64MiB', '10%' or 3")
    if isinstance(written, int):
        return Quantity(float(written), _WHOLE)
    if isinstance(written, float):
        if not math.isfinite(written):
            raise ValueError(f"{written} is no quantity")
        return Quantity(written, _PLAIN)
    match = _TEXT.match(written)
    if match and not match[1]:
        return Quantity(float(written), _PLAIN if "." in written else _WHOLE)
    for family in FAMILIES:
        if match and match[1] in family.units:
            return Quantity(parse(written, family.units, f"a {family.name}", "300ms"), family)
    raise ValueError(f"'{written}' is no quantity; write for example '300ms', '64MiB', '10%' or 3")


def between(low: Quantity, high: Quantity, *, geometric: bool) -> Quantity | None:
    """A readable value (three significant digits) near the middle of two; None when there is none between them."""
    middle = math.sqrt(low.value * high.value) if geometric else (low.value + high.value) / 2
    digits = 2 - math.floor(math.log10(abs(middle))) if middle else 0
    for places in range(digits, digits + 7):
        rounded = round(middle, places)
        value = float(round(rounded)) if low.family.whole else rounded
        if min(low.value, high.value) < value < max(low.value, high.value):
            return Quantity(value, low.family)
    return None
