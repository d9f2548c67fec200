"""What a campaign found: a matrix of cells, each with what its runs say together. The shape of its result.json."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from stormcell.spec.value import Value
from stormcell.spec.verdict import Reason, Verdict

State = Literal["finished", "unfinished", "lost"]


class RunLine(Value):
    """One run of a cell."""

    id: str
    seed: int
    repeat: int
    state: State
    """`unfinished`: never begun, or undone before its end. `lost`: begun, and its outcome is not known."""
    verdict: Verdict | None = None
    why: str = ""
    """The reason that decided, in one sentence."""
    seconds: float | None = None
    folder: str = ""
    """Of the run, for `stormcell judge`."""
    surprise: bool | None = None


class Proportion(Value):
    """`good` of `total`, with the 95 % interval of Wilson. `low` and `high` are None when the total is 0."""

    good: int
    total: int
    low: float | None
    high: float | None
    few: bool
    """So few that the interval says next to nothing: it is wider than half."""


class Summary(Value):
    """One number over all runs of a cell that were learnt from: its value and its 95 % bootstrap interval."""

    probe: str
    phase: str
    vantage: str
    metric: str
    unit: str
    """ratio, duration (seconds), number, size (bytes), bool."""
    value: float | None
    low: float | None
    high: float | None
    runs: int
    samples: int
    note: str = ""
    """What keeps the interval from being what it seems, if anything does."""


class CellResult(Value):
    """One variant of the experiment."""

    name: str
    digest: str
    at: dict[str, str]
    """The label of its value on each axis."""
    kinds: tuple[str, ...] = ()
    """Of its faults."""
    verdict: Verdict | None
    """Of all its runs the first of failed, unknown, void, survived that occurred; None when none came to an end."""
    counts: dict[str, int]
    """survived, failed, void, unknown, lost, unfinished."""
    survived: Proportion
    """Among the runs from which something was learnt (survived and failed)."""
    runs: tuple[RunLine, ...]
    summaries: tuple[Summary, ...] = ()
    cautions: tuple[str, ...] = ()
    """Why its verdict may rest on too little."""


class AxisResult(Value):
    """What was varied, and its values in order."""

    name: str
    path: str
    """The dotted path of the field in the experiment; empty for an axis of whole experiments."""
    labels: tuple[str, ...]


class Comparison(Value):
    """Two cells that differ on one axis alone, the second one against the first value of that axis."""

    axis: str
    of: str
    against: str
    """Names of cells."""
    difference: float
    """Of the share that survived, -1 to 1."""
    low: float | None
    high: float | None
    p: float
    """Fisher's exact test, corrected for all comparisons of this campaign (Holm)."""
    differs: bool
    too_few: bool
    """Not even the clearest outcome of this many runs could have shown a difference."""


class Point(Value):
    """One value that a search tried. `broke` None: it was not decided, or nothing was learnt."""

    text: str
    value: float
    broke: bool | None
    share: Proportion
    """Runs that broke, among those that said anything."""
    runs: tuple[str, ...]
    """Ids."""


class SearchResult(Value):
    """Where it breaks. `outcome` says what the interval is worth."""

    sentence: str
    outcome: Literal["found", "holds everywhere", "breaks everywhere", "nothing learnt", "unfinished"]
    text: str
    holds_at: str | None = None
    breaks_at: str | None = None
    """The two ends of the threshold's interval."""
    low: float | None = None
    high: float | None = None
    """The same in base units, the smaller one first."""
    harder: Literal["up", "down"] | None = None
    """Which way it breaks."""
    points: tuple[Point, ...] = ()
    cautions: tuple[str, ...] = ()


class CampaignResult(Value):
    """The answer of a campaign. Its cells come in the order of the axes, the last axis moving fastest."""

    campaign: str
    question: str = ""
    verdict: Verdict
    reasons: tuple[Reason, ...]
    axes: tuple[AxisResult, ...] = ()
    cells: tuple[CellResult, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    search: SearchResult | None = None
    counts: dict[str, int] = Field(default_factory=dict)
    complete: bool
    """Whether every run that was asked for came to an end."""
    cannot_know: tuple[str, ...] = ()
    info: dict[str, Any] = Field(default_factory=dict)
