"""What one run showed, as data: the part of the model that figures and tables are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

State = Literal["yes", "no", "unknown", "none"]
"""Whether something held. `none`: it was not asked for in this run."""


@dataclass(frozen=True)
class Why:
    """A reason of the verdict; `code` is stable, for programs."""

    code: str
    text: str


@dataclass(frozen=True)
class Link:
    """One link of the chain from a healthy system to a verdict: before, in force, acted, under, after, clean."""

    name: str
    state: State
    text: str


@dataclass(frozen=True)
class Span:
    """A stretch of time with a name; `level` is 0 to 1, of a ramp."""

    name: str
    begin: float
    end: float
    level: float = 1.0


@dataclass(frozen=True)
class Mark:
    """Something that happened at one moment: abort, stop, lost, crash, booted, undone."""

    kind: str
    at: float
    text: str


@dataclass(frozen=True)
class Dot:
    """One attempt, begun at `at`. `seconds` is None when no answer came."""

    at: float
    seconds: float | None
    ok: bool
    outcome: str


@dataclass(frozen=True)
class BoundLine:
    """A bound on a latency, for as long as it was asked for."""

    begin: float
    end: float
    value: float
    text: str


@dataclass(frozen=True)
class ProbeLane:
    """One probe through the whole run. Of many samples some are drawn: `dots` are fewer than `samples`."""

    probe: str
    kind: str
    vantage: str
    samples: int
    dots: tuple[Dot, ...]
    bounds: tuple[BoundLine, ...]
    tries: tuple[Span, ...]
    """Tries at recovery whose samples were not kept."""


@dataclass(frozen=True)
class FaultLane:
    """When one fault was in force."""

    fault: str
    kind: str
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Timeline:
    """Probes against phases, with the faults."""

    begin: float
    end: float
    cut: float
    """Seconds of setup before `begin` that are not drawn."""
    phases: tuple[Span, ...]
    faults: tuple[FaultLane, ...]
    probes: tuple[ProbeLane, ...]
    marks: tuple[Mark, ...]
    guest_time: bool = False
    """Of a sealed run: all its times are the guest's."""


@dataclass(frozen=True)
class Limit:
    """A bound and whether it held."""

    metric: str
    text: str
    value: float
    measured: float | None
    holds: bool


@dataclass(frozen=True)
class SpreadRow:
    """The latencies of one phase: `values` are in order, thinned to at most a few hundred ranks."""

    phase: str
    attempts: int
    answered: int
    succeeded: int
    interval: tuple[float, float] | None
    """95 % interval of the success rate."""
    values: tuple[float, ...]
    p50: float | None
    p95: float | None
    limits: tuple[Limit, ...]
    outcomes: tuple[tuple[str, int], ...]
    """What came instead of a success, the most frequent first."""


@dataclass(frozen=True)
class Spread:
    """The latencies of one probe, phase by phase."""

    probe: str
    vantage: str
    rows: tuple[SpreadRow, ...]
    guest_time: bool = False
    """Of a sealed run."""


@dataclass(frozen=True)
class Measured:
    """One metric of one probe in one phase. `wanted` is empty where nothing was asked of it."""

    probe: str
    vantage: str
    phase: str
    metric: str
    value: float | None
    text: str
    wanted: str
    holds: bool | None
    samples: int
    after: float | None = None
    """For recovery: seconds from the undo until the probe held."""


@dataclass(frozen=True)
class Moved:
    """A number of the kernel that was not the same in all four readings; None where a reading does not have it."""

    name: str
    before: float | None
    during: float | None
    after: float | None
    undone: float | None


@dataclass(frozen=True)
class SealedRun:
    """What a run that is the same every time rests on, and how long it took on both clocks."""

    seed: int
    template: str
    snapshot: str
    """Digest of the memory that it began from."""
    events_sha256: str
    guest_seconds: float | None
    """The guest's instructions at 2 ns, and what it waited; None when it was cut off."""
    host_seconds: float | None
    replay: str
    """The command that repeats it and compares."""
    inputs: tuple[tuple[str, str], ...]
    """All that its events are a function of: name, and digest or version."""

    @property
    def ratio(self) -> float | None:
        """Guest seconds in one of the host's."""
        return self.guest_seconds / self.host_seconds if self.guest_seconds is not None and self.host_seconds else None


@dataclass(frozen=True)
class Proof:
    """A receipt as people read it."""

    fault: str
    kind: str
    params: tuple[tuple[str, str], ...]
    in_force: bool | None
    acted: int | None
    counts: str
    clean: bool | None
    cycles: int
    undo: tuple[str, ...]
    moved: tuple[Moved, ...]
    moved_in_all: int
    notes: tuple[str, ...]
    raw: str
    """The receipt as JSON, its beginning when it is long."""
    raw_bytes: int
