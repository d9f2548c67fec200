"""What came of an exploration, and who follows it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stormcell.engine.explore.coverage import Coverage, Tried
from stormcell.engine.explore.space import Case
from stormcell.engine.sealed.run import Replay
from stormcell.spec.verdict import Result, Verdict


class Watch(Protocol):
    """Who follows an exploration."""

    def driving(self, event: Any) -> None:
        """An event on the way to the instant."""

    def tried(self, one: Tried) -> None:
        """A run of the search came to its end."""

    def step(self, text: str, failed: bool, guest_seconds: float) -> None:
        """A run of the shrinking came to its end."""

    def confirming(self, event: Any) -> None:
        """An event of the run that repeats the smallest case."""

    def ended(self, found: Explored) -> None:
        """All is known that will be, also when it was interrupted."""


class Quiet:
    """Nobody does."""

    def driving(self, event: Any) -> None:
        """Ignored."""

    def tried(self, one: Tried) -> None:
        """Ignored."""

    def step(self, text: str, failed: bool, guest_seconds: float) -> None:
        """Ignored."""

    def confirming(self, event: Any) -> None:
        """Ignored."""

    def ended(self, found: Explored) -> None:
        """Ignored."""


@dataclass(frozen=True)
class Failing:
    """A case that broke the hypothesis, and its run's folder, from which `run --replay` repeats it."""

    case: Case
    values: dict[str, Any]
    result: Result
    folder: Path
    guest_seconds: float
    disturbances: int | None = None
    """Of the scheduler, in that run, those that were left out counted: None without noise."""

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        case = self.case
        return {
            "seed": case.seed,
            "values": self.values,
            "act_at": case.at,
            "faults": list(case.faults),
            "loads": list(case.loads),
            "loads_until_the_act": list(case.brief),
            "loads_until_the_undo": list(case.undone),
            "length": case.length,
            "noise": dict(zip(("first", "last"), self.noise, strict=True)) if self.noise else None,
            "reasons": [reason.model_dump(mode="json") for reason in self.result.reasons],
            "guest_seconds": round(self.guest_seconds, 6),
            "folder": str(self.folder),
            "replay": self.replay_command,
        }

    @property
    def noise(self) -> tuple[int, int] | None:
        """The first of the disturbances that were kept, and the one behind the last."""
        if not self.case.noise:
            return None
        last = self.case.last if self.disturbances is None else min(self.case.last, self.disturbances)
        return self.case.first, last

    @property
    def replay_command(self) -> str:
        """For a shell."""
        return f"stormcell run --replay {shlex.quote(str(self.folder))}"


@dataclass
class Explored:
    """What came of it."""

    experiment: str
    folder: Path
    coverage: Coverage
    drive: Result
    first: Failing | None = None
    shortest: Failing | None = None
    steps: list[dict[str, Any]] = field(default_factory=list)
    host_seconds: float = 0.0
    search_seconds: float = 0.0
    runs: int = 0
    why_nothing: str = ""
    """Of the first run from which nothing was learnt."""
    ended_by: str = ""
    """What cut it short: `interrupted`, or an error."""
    replay: Replay | None = None
    """Of the smallest failing case, from its folder alone; None when there is none or it was not come to."""

    @property
    def verdict(self) -> Verdict:
        """Failed when a case broke it, survived when runs were learnt from, none did, and nobody cut it short."""
        if self.first is not None:
            return Verdict.FAILED
        if self.ended_by:
            return Verdict.UNKNOWN
        if self.coverage.counts[Verdict.SURVIVED]:
            return Verdict.SURVIVED
        unknown = self.coverage.counts[Verdict.UNKNOWN] or self.drive.verdict is Verdict.UNKNOWN
        return Verdict.UNKNOWN if unknown else Verdict.VOID

    @property
    def interrupted(self) -> bool:
        """By its user."""
        return self.ended_by == "interrupted"

    @property
    def replayed(self) -> str | None:
        """`identical`, `different`, `not tried`; None when nothing broke."""
        if self.replay is None:
            return None if self.first is None else "not tried"
        return "identical" if self.replay.difference is None else "different"

    @property
    def per_minute(self) -> float:
        """Runs of the search."""
        return self.runs / self.search_seconds * 60 if self.search_seconds else 0.0

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "experiment": self.experiment,
            "verdict": str(self.verdict),
            "folder": str(self.folder),
            "coverage": self.coverage.as_dict(),
            "first": self.first.as_dict() if self.first else None,
            "shortest": self.shortest.as_dict() if self.shortest else None,
            "shrinking": self.steps,
            "replayed": self.replayed,
            "difference": self.replay.difference.text if self.replay and self.replay.difference else None,
            "why_nothing": self.why_nothing,
            "runs_per_minute": round(self.per_minute, 1),
            "host_seconds": round(self.host_seconds, 3),
            "drive": self.drive.model_dump(mode="json"),
            "interrupted": self.interrupted,
            "ended_by": self.ended_by,
        }
