"""What a report says, as data: every text in it is bounded and printable, every time is in seconds.

Times count from the beginning of the run on the host's clock; those of the guest are moved there (clock.py). Of a
sealed run they are all the guest's own.
"""

from __future__ import annotations

from dataclasses import dataclass

from stormcell.report.compare import CellNumber, Comparison, Matrix, Threshold
from stormcell.report.evidence import Link, Measured, Proof, SealedRun, Spread, Timeline, Why

SCHEMA = 1
"""Of report.json. It grows when a field changes its meaning or goes away; new fields do not count."""

ORDER = {"failed": 0, "unknown": 1, "void": 2, "survived": 3}
"""What needs a reader comes first."""


@dataclass(frozen=True)
class Run:
    """One experiment, once."""

    name: str
    source: str
    question: str
    verdict: str
    reasons: tuple[Why, ...]
    predicted: str
    surprise: bool | None
    began: str
    """ISO 8601, UTC, the host's clock where the guest's is another one; empty when the runner never began."""
    seconds: float
    chain: tuple[Link, ...]
    timeline: Timeline | None
    spreads: tuple[Spread, ...]
    measured: tuple[Measured, ...]
    proofs: tuple[Proof, ...]
    cannot_know: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    folder: str
    branches: tuple[Branch, ...] = ()
    """Of an experiment with branches: the control first. The run itself is then the way to the moment of the fork."""
    comparison: Comparison | None = None
    sealed: SealedRun | None = None
    """Of a sealed run; then every time in it is guest time: instructions, and not this machine's speed."""


@dataclass(frozen=True)
class Branch:
    """One fork of the same instant."""

    name: str
    control: bool
    deviates: bool | None
    """Whether it differs from the control by more than chance. None: that cannot be said."""
    run: Run


@dataclass(frozen=True)
class Brief:
    """One run of a campaign in one line. The verdict may also be `lost` or `unfinished`."""

    id: str
    cell: str
    seed: int
    repeat: int
    verdict: str
    why: str
    seconds: float | None
    folder: str


@dataclass(frozen=True)
class Campaign:
    """Many runs of one experiment, judged together."""

    name: str
    question: str
    verdict: str
    reasons: tuple[Why, ...]
    complete: bool
    matrix: Matrix | None
    numbers: tuple[CellNumber, ...]
    comparison: Comparison | None
    threshold: Threshold | None
    lines: tuple[Brief, ...]
    runs: tuple[Run, ...]
    """Some of them in full: of each cell the one that most asks for attention."""
    cannot_know: tuple[str, ...]
    folder: str


@dataclass(frozen=True)
class Problem:
    """A run that could not be made or a folder that could not be read: there is no verdict of it."""

    what: str
    error: str
    text: str


@dataclass(frozen=True)
class Report:
    """All that one page says."""

    title: str
    made: str
    """ISO 8601, UTC."""
    version: str
    """Of stormcell."""
    runs: tuple[Run, ...]
    problems: tuple[Problem, ...] = ()
    interrupted: bool = False
    campaigns: tuple[Campaign, ...] = ()
    schema: int = SCHEMA
