"""How branches of one instant differ from their control, as data."""

from __future__ import annotations

from typing import Literal

from stormcell.spec.value import Value


class Difference(Value):
    """One metric of one probe under the fault, in one branch and in the control.

    `difference` is the branch's value less the control's, `low` to `high` its 95 % interval; durations are seconds,
    rates 0 to 1. `p` is corrected for all tests of the experiment; a metric without a test of its own has none.
    """

    branch: str
    probe: str
    vantage: str
    metric: str
    unit: str
    control: float | None
    measured: float | None
    difference: float | None
    low: float | None = None
    high: float | None = None
    test: Literal["", "fisher", "mann-whitney"] = ""
    plain_p: float | None = None
    """Before the correction."""
    p: float | None = None
    deviates: bool | None = None
    """None: not tested, too few samples, or no more than was seen without a fault."""
    control_samples: int
    samples: int
    note: str = ""


class Comparison(Value):
    """Branches against the control. `tests` is how many were made: what `p` is corrected for."""

    moment: str
    control: str
    """The control's verdict; differences are computed only when it survived."""
    alpha: float
    tests: int
    rows: tuple[Difference, ...] = ()
