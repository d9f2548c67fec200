"""What several runs say together: a campaign's matrix, branches against their control, a threshold."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Cell:
    """The runs of one place in a matrix: how many ended how."""

    survived: int = 0
    failed: int = 0
    void: int = 0
    unknown: int = 0
    """With those that were lost or have not come to an end."""
    interval: tuple[float, float] | None = None
    """95 % interval (Wilson) of the share that survived, among those that survived or failed."""
    note: str = ""
    runs: tuple[str, ...] = ()
    """Their verdicts, one by one."""
    page: int = 0
    """Which of the campaign's runs in full is of this cell; 0: none."""

    @property
    def judged(self) -> int:
        """Runs from which something was learnt."""
        return self.survived + self.failed


@dataclass(frozen=True)
class MatrixRow:
    """One row; a None is a combination that was not run."""

    name: str
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True)
class Matrix:
    """Fault by parameter, template or seed."""

    title: str
    rows_are: str
    columns_are: str
    columns: tuple[str, ...]
    rows: tuple[MatrixRow, ...]


@dataclass(frozen=True)
class CellNumber:
    """One metric of one probe over all runs of a cell that were learnt from, with its 95 % bootstrap interval."""

    cell: str
    probe: str
    phase: str
    metric: str
    text: str
    between: str
    runs: int
    samples: int
    note: str


@dataclass(frozen=True)
class Difference:
    """One branch against the control, or one cell against another, in one metric; texts have their units."""

    branch: str
    fault: str
    verdict: str
    metric: str
    control: str
    measured: str
    difference: float | None
    low: float | None
    high: float | None
    """95 % interval of the difference, in the metric's own unit."""
    unit: str
    p: float | None
    """Corrected for the number of comparisons."""
    deviates: bool | None
    """None when it cannot be said: too few samples, or nothing measured."""
    samples: str
    note: str = ""


@dataclass(frozen=True)
class Comparison:
    """Branches that were forked from one instant, or cells of a matrix."""

    title: str
    moment: str
    """Of branches: what they were forked at. Empty for cells."""
    control: str
    """Of branches: the verdict of the control. Empty for cells."""
    test: str
    """The name of the test and of the correction."""
    rows: tuple[Difference, ...]


@dataclass(frozen=True)
class Point:
    """One value of the parameter that was tried: `broke` of `tries`."""

    value: float
    text: str
    tries: int
    broke: int
    interval: tuple[float, float] | None = None


@dataclass(frozen=True)
class Threshold:
    """Where something begins to break: between `low` (held) and `high` (broke)."""

    title: str
    parameter: str
    criterion: str
    """What was searched for."""
    points: tuple[Point, ...]
    low: float | None
    high: float | None
    text: str
    """The finding as a sentence, with its uncertainty."""
    cautions: tuple[str, ...] = ()
