"""The space that is explored, and its cases in the order in which they are tried. Pure.

A case is a point: a seed, a value for each dimension, a moment for the act, and what of the experiment is kept. The
first cases are the corners (everything harmless, everything harsh); the next ones spread evenly, by the additive
recurrence of the generalised golden ratio (Roberts, "The Unreasonable Effectiveness of Quasirandom Sequences").
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stormcell.spec.exploration import Exploration, Range
from stormcell.spec.quantity import Quantity

DIGITS = 3
ENDLESS = 1_000_000
"""The number of a disturbance that no run comes to. A number and not None: the program of a case that is made smaller
differs from the first one's in a digit then, and not in what it does at each disturbance."""


@dataclass(frozen=True)
class Dimension:
    """One thing that varies, from 0 (harmless) to 1. `values` are all there are; without them it is a range."""

    name: str
    values: tuple[Any, ...] = ()
    ends: tuple[Quantity, Quantity] | None = None

    def at(self, place: float) -> Any:
        """The value at a place between 0 and 1, as a spec would hold it."""
        if self.ends is None:
            return self.values[min(int(place * len(self.values)), len(self.values) - 1)]
        low, high = self.ends
        if place <= 0 or place >= 1:
            return (low if place <= 0 else high).plain
        if min(low.value, high.value) > 0:
            value = low.value * (high.value / low.value) ** place
        else:
            value = low.value + (high.value - low.value) * place
        return Quantity(_rounded(value, low.family.whole), low.family).plain

    @property
    def text(self) -> str:
        """What it ranges over."""
        if self.ends is None:
            return ", ".join(map(str, self.values))
        return f"{self.ends[0].text} to {self.ends[1].text}"


@dataclass(frozen=True)
class Case:
    """What one run is. `places` are those of the dimensions; `first` and `last` bound the schedule noise.

    `brief` are the loads that end at the act, `undone` those that end at the undo and not at the end; `length` is the
    share of the experiment's `settle` and `hold`, during which they go on.
    """

    seed: int
    places: tuple[tuple[str, float], ...] = ()
    at: float = 0.0
    faults: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    brief: tuple[str, ...] = ()
    undone: tuple[str, ...] = ()
    length: float = 1.0
    noise: bool = False
    first: int = 0
    last: int = ENDLESS

    def but(self, **changes: Any) -> Case:
        """The same with something else."""
        return replace(self, **changes)

    def moved(self, name: str, place: float) -> Case:
        """The same with another place in one dimension."""
        return replace(self, places=tuple((one, place if one == name else old) for one, old in self.places))

    def place(self, name: str) -> float:
        """In one dimension."""
        return dict(self.places)[name]


@dataclass(frozen=True)
class Space:
    """All of it. `window` is that of the act's moment in seconds, None when it does not vary."""

    dimensions: tuple[Dimension, ...]
    window: tuple[float, float] | None
    faults: tuple[str, ...]
    loads: tuple[str, ...]
    noise_gap: float | None = None
    lasts: bool = False
    """Whether there is a `settle` or a `hold` that could be shorter."""
    lasting: tuple[str, ...] = ()
    """Loads that go on behind the undo."""

    @classmethod
    def of(
        cls,
        exploration: Exploration,
        faults: Sequence[str],
        loads: Sequence[str],
        lasts: bool = False,
        lasting: Sequence[str] = (),
    ) -> Space:
        """From what the experiment says."""
        dimensions = []
        for path, values in exploration.vary.items():
            if isinstance(values, Range):
                dimensions.append(Dimension(path, ends=values.ends))
            else:
                dimensions.append(Dimension(path, values=values))
        when = exploration.when
        window = (when.start, when.to) if when else None
        noise = exploration.noise
        gap = noise.gap if noise else None
        return cls(tuple(dimensions), window, tuple(faults), tuple(loads), gap, lasts, tuple(lasting))

    def values(self, case: Case) -> dict[str, Any]:
        """By the path of each dimension."""
        return {dimension.name: dimension.at(case.place(dimension.name)) for dimension in self.dimensions}

    def cases(self, seed: int) -> Iterator[Case]:
        """Without end; every case has a seed of its own, counted from `seed`."""
        names = [dimension.name for dimension in self.dimensions]
        axes = len(names) + (self.window is not None)
        draw = random.Random(f"{seed}/space")
        start = [draw.random() for _ in range(axes)]
        for number in itertools.count():
            point = self._point(number, axes, start)
            places = tuple(zip(names, point, strict=False))
            yield Case(
                seed=seed + number,
                places=places,
                at=self._moment(point[-1]) if self.window else 0.0,
                faults=self.faults,
                loads=self.loads,
                noise=self.noise_gap is not None,
            )

    def _point(self, number: int, axes: int, start: Sequence[float]) -> list[float]:
        corners = [[0.0] * axes, [1.0] * axes]
        if axes and number < len(corners):
            return corners[number]
        base = _harmonious(axes)
        return [(start[axis] + number * base ** -(axis + 1)) % 1.0 for axis in range(axes)]

    def _moment(self, place: float) -> float:
        assert self.window is not None
        low, high = self.window
        return _rounded(low + (high - low) * place, whole=False)


def _harmonious(axes: int) -> float:
    """The only positive root of x^(d+1) = x + 1."""
    root = 2.0
    for _ in range(40):
        root = (1 + root) ** (1 / (axes + 1))
    return root


def _rounded(value: float, whole: bool) -> float:
    if whole:
        return float(round(value))
    digits = DIGITS - 1 - math.floor(math.log10(abs(value))) if value else 0
    return round(value, digits)
