"""When a fault is in force: at once and until the undo, or by a schedule on the guest's clock."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from stormcell.spec.fault import Fault
from stormcell.spec.units import Duration, spoken
from stormcell.spec.value import Value

TURN_S = 0.25
"""Counted for each act and each undo with its readings; in an emulated guest they take 0.1 to 0.5 s."""


class Pulse(Value):
    """On and off, `times` times, each time equally long."""

    on: Duration
    off: Duration
    times: int = Field(ge=1, le=1000)

    @property
    def length(self) -> float:
        """Of one time."""
        return self.on


def _span(value: object) -> object:
    return value if isinstance(value, list | tuple) else [value, value]


Span = Annotated[tuple[Duration, Duration], BeforeValidator(_span)]
"""A duration, or the shortest and the longest."""


class Flap(Value):
    """On and off, `times` times, each time as long as the seed draws between the shortest and the longest."""

    on: Span
    off: Span
    times: int = Field(ge=1, le=1000)

    @property
    def length(self) -> float:
        """Of the shortest time."""
        return self.on[0]

    @model_validator(mode="after")
    def _spans(self) -> Flap:
        for name, (shortest, longest) in (("on", self.on), ("off", self.off)):
            if shortest > longest:
                raise ValueError(f"'{name}' is [shortest, longest]; {shortest:g} s is longer than {longest:g} s")
        return self


class Ramp(Value):
    """One parameter goes through several values, each held for `each`; changed in place where the kernel can."""

    parameter: str
    through: tuple[Any, ...] = Field(min_length=2, max_length=1000)
    each: Duration

    @property
    def length(self) -> float:
        """Of one value."""
        return self.each


class Draw(Value):
    """`times` times for `lasts`, at moments within `within` that the seed draws; never two at once."""

    within: Duration
    lasts: Duration
    times: int = Field(default=1, ge=1, le=1000)

    @property
    def length(self) -> float:
        """Of one time."""
        return self.lasts

    @model_validator(mode="after")
    def _fits(self) -> Draw:
        needed = (self.lasts + 2 * TURN_S) * self.times
        if needed > self.within + 1e-9:
            times = "once" if self.times == 1 else f"{self.times} times"
            raise ValueError(
                f"{times} {spoken(self.lasts)} do not fit into 'within: {spoken(self.within)}': with "
                f"{spoken(2 * TURN_S)} for each act and undo they need {spoken(needed)}"
            )
        return self


_FORMS = ("pulse", "flap", "ramp", "random")


class Schedule(Value):
    """When, counted from the fault's turn in the experiment. Without a form: from `at` on, to the undo."""

    at: Duration = 0.0
    """Waited before the first act; the experiment goes on meanwhile."""
    lasts: Duration | None = None
    pulse: Pulse | None = None
    flap: Flap | None = None
    ramp: Ramp | None = None
    random: Draw | None = None

    @model_validator(mode="after")
    def _one_form(self) -> Schedule:
        forms = [name for name in ("lasts", *_FORMS) if getattr(self, name) is not None]
        if len(forms) > 1:
            raise ValueError(f"one form at a time; {' and '.join(forms)} are given")
        if not forms and not self.at:
            raise ValueError(
                "it says neither when nor for how long, and a fault without a schedule begins at once; leave it out, "
                "or write lasts, pulse, flap, ramp, random or a later 'at', for example {lasts: 5s}"
            )
        lengths = [self.lasts, *(getattr(self, form) and getattr(self, form).length for form in _FORMS)]
        if any(length is not None and length <= 0 for length in lengths):
            raise ValueError("a length of 0s: the fault would never be in force")
        return self

    @property
    def turns(self) -> int:
        """Acts and undos until it is over."""
        cycles = self.pulse or self.flap or self.random
        if cycles is not None:
            return 2 * cycles.times
        return len(self.ramp.through) if self.ramp is not None else 2 if self.lasts is not None else 1


@dataclass(frozen=True)
class Disturbance:
    """A fault with its place in the experiment: when it acts, and for a ramp what it becomes, value by value."""

    fault: Fault
    schedule: Schedule | None = None
    levels: tuple[Fault, ...] = ()
    """Of a ramp, the first one being `fault` itself. Empty otherwise."""

    @property
    def id(self) -> str:
        """The fault's name."""
        return self.fault.id
