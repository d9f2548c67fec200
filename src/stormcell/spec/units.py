"""Quantities as people write them: `300ms`, `64MiB`, `1mbit`, `10%`.

Inside they are plain numbers in one unit each (seconds, bytes, bits per second, per cent); written out they are
text again, so that a plan reads as the spec did. A bare number is refused: its unit would be a guess.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

NUMBER = r"[-+]?[0-9]+(?:\.[0-9]+)?"
_QUANTITY = re.compile(rf"\s*({NUMBER})\s*([A-Za-zµ%/]*)\s*\Z")

SECONDS: Mapping[str, float] = {
    "ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
BYTES: Mapping[str, float] = {
    "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
    "K": 2**10, "M": 2**20, "G": 2**30,
}  # fmt: skip
BITS_PER_SECOND: Mapping[str, float] = {"bit": 1, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
PER_CENT: Mapping[str, float] = {"%": 1}
PER_SECOND: Mapping[str, float] = {"/s": 1, "/m": 1 / 60, "/min": 1 / 60}


def parse(text: object, units: Mapping[str, float], what: str, example: str) -> float:
    """The quantity in `text`. Raises ValueError with the units that exist; a number without unit is refused, but 0."""
    if isinstance(text, bool) or not isinstance(text, str | int | float):
        raise ValueError(f"{what} is written as text with a unit, for example '{example}'")
    match = _QUANTITY.match(str(text))
    if not match:
        raise ValueError(f"'{text}' is not {what}; write for example '{example}'")
    number, unit = float(match[1]), match[2]
    if not unit:
        if number == 0:
            return 0.0
        needs = f"one of {', '.join(units)}" if len(units) > 1 else next(iter(units))
        raise ValueError(f"'{text}' has no unit; {what} needs {needs}, for example '{example}'")
    if unit not in units:
        raise ValueError(f"'{unit}' is no unit of {what}; use one of {', '.join(units)}, for example '{example}'")
    # a decimal fraction times a decimal power is rounded once, so that 0.3 s is 300 ms and not 299.99... ms
    return round(number * units[unit], 9)


def render(value: float, units: Mapping[str, float]) -> str:
    """`value` with the largest unit that leaves a whole number, else the smallest unit."""
    if value == 0:
        return f"0{next(iter(units))}" if "s" not in units else "0s"
    ordered = sorted(units.items(), key=lambda item: item[1], reverse=True)
    for unit, factor in ordered:
        scaled = value / factor
        if abs(scaled) >= 1 and round(round(scaled) * factor, 9) == value:
            return f"{round(scaled)}{unit}"
    unit, factor = ordered[-1]
    return f"{value / factor:.9g}{unit}"


def duration(text: object) -> float:
    """Seconds."""
    if isinstance(text, timedelta):
        return text.total_seconds()
    return parse(text, SECONDS, "a duration", "300ms")


def duration_text(seconds: float) -> str:
    """`0.3` is `300ms`."""
    return render(seconds, {k: v for k, v in SECONDS.items() if k not in {"µs", "min", "d"}})


def spoken(seconds: float) -> str:
    """For a sentence: as it would be written, but `4.5s` and not `4500ms`."""
    text = duration_text(round(seconds, 3))
    return f"{seconds:.4g}s" if abs(seconds) >= 1 and text.endswith("ms") else text


def size(text: object) -> int:
    """Bytes. K, M and G alone are powers of 1024, as the kernel reads them."""
    return int(parse(text, BYTES, "a size", "64MiB"))


def size_text(count: int) -> str:
    """`67108864` is `64MiB`."""
    return render(count, {k: BYTES[k] for k in ("B", "KiB", "MiB", "GiB")})


def _rate(text: object) -> int:
    return int(parse(text, BITS_PER_SECOND, "a bit rate", "1mbit"))


def _percent(text: object) -> float:
    return parse(text, PER_CENT, "a percentage", "10%")


def _frequency(text: object) -> float:
    return parse(text, PER_SECOND, "a frequency", "5/s")


def _positive(check: Callable[[Any], Any], low: float, high: float, say: str) -> Callable[[Any], Any]:
    def within(text: Any) -> Any:
        value = check(text)
        if not low <= value <= high:
            raise ValueError(f"'{text}' is out of range; {say}")
        return value

    return within


def _schema(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{NUMBER}{pattern}$", "examples": [example]})


Duration = Annotated[
    float,
    BeforeValidator(_positive(duration, 0, 31 * 86400, "a duration is between 0 and 31 days")),
    PlainSerializer(duration_text, return_type=str),
    _schema("(ns|us|ms|s|m|min|h|d)", "300ms"),
]
"""Seconds, not negative."""

Offset = Annotated[
    float,
    BeforeValidator(duration),
    PlainSerializer(duration_text, return_type=str),
    _schema("(ns|us|ms|s|m|min|h|d)", "-1h"),
]
"""Seconds, of either sign."""

Size = Annotated[
    int,
    BeforeValidator(_positive(size, 0, 2**62, "a size is not negative")),
    PlainSerializer(size_text, return_type=str),
    _schema("(B|kB|KB|MB|GB|KiB|MiB|GiB|K|M|G)", "64MiB"),
]
"""Bytes."""

BitRate = Annotated[
    int,
    BeforeValidator(_positive(_rate, 1, 10**12, "a rate is between 1bit and 1000gbit")),
    PlainSerializer(lambda rate: render(rate, BITS_PER_SECOND), return_type=str),
    _schema("(bit|kbit|mbit|gbit)", "1mbit"),
]
"""Bits per second."""

Percent = Annotated[
    float,
    BeforeValidator(_positive(_percent, 0, 100, "a percentage is between 0% and 100%")),
    PlainSerializer(lambda value: f"{value:g}%", return_type=str),
    _schema("%", "10%"),
]
"""Per cent, 0 to 100."""

CpuPercent = Annotated[
    float,
    BeforeValidator(_positive(_percent, 1, 100_000, "a share of CPU is at least 1% (100% is one whole CPU)")),
    PlainSerializer(lambda value: f"{value:g}%", return_type=str),
    _schema("%", "50%"),
]
"""Per cent of one CPU: 250% is two and a half."""

Frequency = Annotated[
    float,
    BeforeValidator(_positive(_frequency, 1e-4, 10_000, "a frequency is between 0.0001/s and 10000/s")),
    PlainSerializer(lambda value: f"{value:g}/s", return_type=str),
    _schema("(/s|/m|/min)", "5/s"),
]
"""Per second."""
