"""What a run may conclude, and how several conclusions become one exit code."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import Any

from pydantic import Field

from stormcell.spec.comparison import Comparison
from stormcell.spec.receipt import Held
from stormcell.spec.value import Value

CONTROL = "control"
"""The branch that gets no fault."""


class Verdict(StrEnum):
    """`void`: nothing was learnt. `unknown`: the outcome was lost. Neither is a pass."""

    SURVIVED = "survived"
    FAILED = "failed"
    VOID = "void"
    UNKNOWN = "unknown"


EXIT_CODE = {Verdict.SURVIVED: 0, Verdict.FAILED: 1, Verdict.VOID: 3, Verdict.UNKNOWN: 4}
BAD_INPUT = 2
PRECEDENCE = (BAD_INPUT, 1, 4, 3, 0)
"""Of several runs: the first of these that occurred."""


def exit_code(codes: Iterable[int]) -> int:
    """One exit code for several runs. No run at all is bad usage."""
    seen = set(codes)
    return next((code for code in PRECEDENCE if code in seen), BAD_INPUT)


class Reason(Value):
    """Why. `code` is stable, for programs; `text` is for people."""

    code: str
    text: str


class Check(Value):
    """One tolerance against one measurement. `measured` is None when there was nothing to measure."""

    metric: str
    wanted: str
    measured: float | None
    holds: bool


class ProbeResult(Value):
    """One probe in one phase, with where it stood and how many samples it rests on."""

    probe: str
    phase: str
    vantage: str
    samples: int
    metrics: dict[str, float | None]
    checks: tuple[Check, ...]
    holds: bool
    seconds: float | None = None
    """For recovery: seconds from the undo until the probe held."""
    detail: str = ""


class FaultResult(Value):
    """A receipt in short: `acted` counts `counts`."""

    fault: str
    kind: str
    in_force: bool | None
    acted: int | None
    counts: str
    clean: bool | None
    held: tuple[Held, ...] = ()
    """How long it was in force, cycle by cycle: asked and had."""
    notes: tuple[str, ...] = ()


class Prediction(Value):
    """Written before the run."""

    verdict: Verdict
    probe: str | None = None


class Result(Value):
    """The answer of one run; `stormcell judge` recomputes it from the run's folder."""

    experiment: str
    question: str = ""
    verdict: Verdict
    reasons: tuple[Reason, ...]
    prediction: Prediction | None = None
    surprise: bool | None = None
    """None when there is nothing to compare: no prediction, or the run is void or unknown."""
    probes: tuple[ProbeResult, ...] = ()
    faults: tuple[FaultResult, ...] = ()
    cannot_know: tuple[str, ...] = ()
    aborted: bool = False
    """An abort condition ended the run early: what came after it was not measured."""
    guest_seconds: float | None = None
    instruction_time: bool = False
    """It ran sealed: every time in it counts the guest's instructions, 2 ns each, and not this machine's speed."""
    branches: tuple[BranchResult, ...] = ()
    """Of an experiment with branches: each one's own answer, the control's first."""
    comparison: Comparison | None = None
    """The same: how each branch differs from the control."""
    info: dict[str, Any] = Field(default_factory=dict)


class BranchResult(Value):
    """One fork of the same instant. `folder` is relative to the run's."""

    name: str
    result: Result
    deviates: bool | None = None
    """Whether it differs from the control by more than chance. None: that cannot be said, or it is the control."""
    folder: str = ""

    @property
    def control(self) -> bool:
        """Whether nothing was done to it."""
        return self.name == CONTROL


Result.model_rebuild()
