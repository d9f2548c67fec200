"""`explore:` in an experiment: what may be varied to find a case that breaks it."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from stormcell.spec.quantity import Quantity, quantity
from stormcell.spec.units import Duration
from stormcell.spec.value import Value, wrong_at


class Range(Value):
    """From the harmless end to the other one; with one unit."""

    start: str | int | float = Field(alias="from")
    to: str | int | float

    @model_validator(mode="after")
    def _one_unit(self) -> Range:
        low, high = self.ends
        if low.family is not high.family:
            raise ValueError(f"'{self.start}' and '{self.to}' are not in the same unit")
        if low.value == high.value:
            raise ValueError(f"'{self.start}' and '{self.to}' are the same")
        return self

    @property
    def ends(self) -> tuple[Quantity, Quantity]:
        """Raises ValueError for what is no quantity."""
        return quantity(self.start), quantity(self.to)


class Window(Value):
    """When the act may come, counted from the instant."""

    start: Duration = Field(default=0.0, alias="from")
    to: Duration

    @model_validator(mode="after")
    def _forward(self) -> Window:
        if self.to <= self.start:
            raise ValueError("'to' comes after 'from'")
        return self


class Noise(Value):
    """Disturbances of the guest's scheduler, by the seed, `gap` apart on average."""

    gap: Duration = 0.005


class Exploration(Value):
    """The space: seeds always, and what is named here."""

    vary: dict[str, Range | tuple[Any, ...]] = Field(default_factory=dict)
    """Fields of the experiment by their dotted paths: a list with the harmless value first, or a range."""
    when: Window | None = None
    """Without it the act comes at the instant."""
    schedules: bool | Noise = False
    """Disturb the scheduler from the instant on, each run by its own seed."""

    @model_validator(mode="after")
    def _values(self) -> Exploration:
        for path, values in self.vary.items():
            if isinstance(values, tuple) and len(values) < 2:
                number = "one value varies" if values else "no value varies"
                raise wrong_at(f"{number} nothing; give two or more, or {{from: .., to: ..}}", "vary", path)
        return self

    @property
    def noise(self) -> Noise | None:
        """None: the scheduler is left alone."""
        if isinstance(self.schedules, Noise):
            return self.schedules
        return Noise() if self.schedules else None
