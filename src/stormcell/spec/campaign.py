"""A campaign as a person writes it: one experiment, what is varied, and how often each variant runs."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from stormcell.spec.experiment import NAME
from stormcell.spec.quantity import Quantity, quantity
from stormcell.spec.value import Value

MAX_RUNS = 10_000
_SENTENCE = re.compile(r"\s*(\S+)\s+between\s+(\S+)\s+and\s+(\S+)(?:\s+where\s+(?:(\S+)(?:\s+(\S+))?\s+)?breaks)?\s*\Z")
_FORM = "net.delay.delay between 10ms and 2s where checkout p95 breaks"


class Find(Value):
    """A search for the value of one parameter at which the system breaks. Also one sentence, `sentence` says how."""

    parameter: str
    """A field of the experiment (`fault.delay`), or a kind and its parameter (`net.delay.delay`)."""
    between: tuple[Any, Any]
    """Two values of the same unit; which of them is the harder one is found out."""
    probe: str | None = None
    """What breaks: this probe's bounds under the fault or at recovery. Without it: the verdict is `failed`."""
    metric: str | None = None
    """Only this metric's bound."""
    within: Any = None
    """Stop once the threshold is known this well; by default to a twentieth of its value."""
    repeats: int = Field(default=3, ge=1, le=100)
    """Runs at one value at most; fewer when the first ones decide."""
    most_runs: int = Field(default=60, ge=4, le=1000)

    @model_validator(mode="before")
    @classmethod
    def _from_sentence(cls, data: Any) -> Any:
        if not isinstance(data, str):
            return data
        match = _SENTENCE.match(data)
        if not match:
            raise ValueError(f"'{data}' is no search; write for example '{_FORM}'")
        parameter, low, high, probe, metric = match.groups()
        return {"parameter": parameter, "between": (low, high), "probe": probe, "metric": metric}

    @model_validator(mode="after")
    def _ends(self) -> Find:
        low, high = self.ends
        if low.family is not high.family:
            raise ValueError(
                f"between {low.text} and {high.text}: one is a {low.family.name}, one a {high.family.name}"
            )
        if low.value == high.value:
            raise ValueError(f"between {low.text} and {high.text}: there is nothing to search")
        if self.within is not None and quantity(self.within).family is not low.family:
            raise ValueError(f"'within' is {self.within}, and the values are each a {low.family.name}")
        if self.metric is not None and self.probe is None:
            raise ValueError("'metric' is that of a probe: name the 'probe', too")
        return self

    @property
    def ends(self) -> tuple[Quantity, Quantity]:
        """The two values, the smaller one first."""
        one, other = (quantity(end) for end in self.between)
        return (one, other) if one.value <= other.value else (other, one)

    @property
    def sentence(self) -> str:
        """As one would say it."""
        what = " ".join(filter(None, (self.probe, self.metric)))
        low, high = self.ends
        return f"{self.parameter} between {low.text} and {high.text} where {what + ' ' if what else ''}breaks"


class Campaign(Value):
    """Many runs of one experiment: every combination of what is varied, each several times."""

    stormcell: Literal[1] = 1
    campaign: str = Field(pattern=NAME)
    """Its name."""
    question: str = ""
    experiment: str | dict[str, Any]
    """An experiment's file, relative to this one, or the experiment itself."""
    matrix: dict[str, list[Any] | dict[str, Any]] = Field(default_factory=dict)
    """Fields of the experiment, by dotted path, and the values that each takes: a list, or values by name."""
    templates: tuple[str, ...] = ()
    """Short for a matrix over `template`."""
    seeds: tuple[int, ...] = ()
    """Each cell runs once with each. Without them repeat number r has the seed of the command line plus r - 1."""
    repeats: int = Field(default=1, ge=1, le=1000)
    """Runs of each cell, with each seed."""
    fail_fast: bool = False
    """Stop at the first run that failed."""
    jobs: int | None = Field(default=None, ge=1, le=64)
    """Runs at the same time at most; by default one a processor. Memory and disk may allow fewer."""
    find: Find | None = None

    @field_validator("matrix")
    @classmethod
    def _values(cls, matrix: dict[str, list[Any] | dict[str, Any]]) -> dict[str, list[Any] | dict[str, Any]]:
        for path, values in matrix.items():
            if not values:
                raise ValueError(f"{path} has no values: nothing would run")
            if isinstance(values, list):
                odd = next((value for value in values if isinstance(value, list | dict) or value is None), None)
                if odd is not None:
                    raise ValueError(
                        f"{path}: give {odd!r} a name, for example {{{path}: {{plain: ..., other: ...}}}}; "
                        "only plain values name themselves"
                    )
                if len({str(value) for value in values}) < len(values):
                    raise ValueError(f"{path} has a value twice; use 'repeats' to run it again")
        return matrix

    @model_validator(mode="after")
    def _whole(self) -> Campaign:
        if self.templates and "template" in self.matrix:
            raise ValueError("'templates' is short for matrix.template, and both are given")
        if len(set(self.templates)) < len(self.templates) or len(set(self.seeds)) < len(self.seeds):
            raise ValueError("a template or a seed stands there twice; use 'repeats' to run it again")
        if self.find is not None and (self.matrix or self.templates or self.seeds or self.repeats != 1):
            raise ValueError(
                "'find' chooses its runs itself; it has its own 'repeats', and goes with no matrix or seeds"
            )
        if self.find is not None and self.fail_fast:
            raise ValueError("'find' looks for runs that fail; 'fail_fast' would end it at the first")
        count = self.repeats * max(1, len(self.seeds)) * max(1, len(self.templates))
        for values in self.matrix.values():
            count *= len(values)
        if count > MAX_RUNS:
            raise ValueError(f"these are {count} runs; a campaign has at most {MAX_RUNS}")
        return self
