"""Explore an experiment: cases from one instant, until one breaks it; then a smaller one that still does."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stormcell.engine.explore.coverage import Coverage, Tried, coverage
from stormcell.engine.explore.plans import compile_case, compile_instant, variant
from stormcell.engine.explore.shrink import shrink
from stormcell.engine.explore.space import Case, Space
from stormcell.engine.folder import RunFolder
from stormcell.engine.load import Loaded
from stormcell.engine.sealed import bundle
from stormcell.engine.sealed.instant import Instant
from stormcell.engine.sealed.refusals import check_sealed
from stormcell.engine.sealed.run import SealedOutcome, perform
from stormcell.judge.verdict import judge
from stormcell.spec.errors import SpecError
from stormcell.spec.expansion import BadPath
from stormcell.spec.exploration import Exploration
from stormcell.spec.home import Home
from stormcell.spec.verdict import Result, Verdict
from stormcell.template.sealed import SealedTemplate

TRIED = "tried.jsonl"
SHRINK_RUNS = 60
FRUITLESS = 5


class Watch(Protocol):
    """Who follows an exploration."""

    def driving(self, event: Any) -> None:
        """An event on the way to the instant."""

    def tried(self, one: Tried) -> None:
        """A run of the search came to its end."""

    def step(self, text: str, failed: bool, guest_seconds: float) -> None:
        """A run of the shrinking came to its end."""


class Quiet:
    """Nobody does."""

    def driving(self, event: Any) -> None:
        """Ignored."""

    def tried(self, one: Tried) -> None:
        """Ignored."""

    def step(self, text: str, failed: bool, guest_seconds: float) -> None:
        """Ignored."""


@dataclass(frozen=True)
class Failing:
    """A case that broke the hypothesis, and its run's folder, from which `run --replay` repeats it."""

    case: Case
    values: dict[str, Any]
    result: Result
    folder: Path
    guest_seconds: float

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        case = self.case
        return {
            "seed": case.seed,
            "values": self.values,
            "act_at": case.at,
            "faults": list(case.faults),
            "loads": list(case.loads),
            "length": case.length,
            "noise": {"first": case.first, "last": case.last} if case.noise else None,
            "reasons": [reason.model_dump(mode="json") for reason in self.result.reasons],
            "guest_seconds": round(self.guest_seconds, 6),
            "folder": str(self.folder),
            "replay": f"stormcell run --replay {self.folder}",
        }


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
    interrupted: bool = False

    @property
    def verdict(self) -> Verdict:
        """Failed when a case broke it, survived when runs were learnt from and none did."""
        if self.first is not None:
            return Verdict.FAILED
        if self.coverage.counts[Verdict.SURVIVED]:
            return Verdict.SURVIVED
        unknown = self.coverage.counts[Verdict.UNKNOWN] or self.drive.verdict is Verdict.UNKNOWN
        return Verdict.UNKNOWN if unknown else Verdict.VOID

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
            "why_nothing": self.why_nothing,
            "runs_per_minute": round(self.per_minute, 1),
            "host_seconds": round(self.host_seconds, 3),
            "drive": self.drive.model_dump(mode="json"),
            "interrupted": self.interrupted,
        }


def space_of(loaded: Loaded) -> Space:
    """Of an experiment. Raises SpecError when its values make no experiment."""
    experiment = loaded.experiment
    exploration = experiment.explore or Exploration()
    faults = [item.id for item in loaded.disturbances]
    lasts = experiment.settle + experiment.hold > 0
    space = Space.of(exploration, faults, [load.name for load in experiment.load], lasts)
    corners: Iterator[Case] = space.cases(0)
    for _ in range(2 if space.dimensions else 0):
        try:
            variant(loaded, space, next(corners))  # what is not valid is told before anything starts
        except (BadPath, SpecError) as error:
            raise SpecError(
                f"explore.vary: {error.what if isinstance(error, SpecError) else error}",
                where=loaded.source,
                rule="a path leads to a field of the experiment, and every value makes a valid experiment",
                remedy="write for example vary: {fault.delay: {from: 10ms, to: 1s}}",
            ) from error
    return space


async def explore(
    loaded: Loaded,
    template: SealedTemplate,
    *,
    runs: int,
    seed: int = 0,
    jobs: int = 1,
    shrink_runs: int = SHRINK_RUNS,
    home: Home | None = None,
    into: Path | None = None,
    watch: Watch | None = None,
) -> Explored:
    """At most `runs` cases, `jobs` at a time, until one breaks the hypothesis; then at most `shrink_runs` to shrink it.

    Raises SpecError for what cannot be sealed or varied, and what the host lacked for the first machine. Cancelling
    releases what runs and raises CancelledError; what was tried by then is in the folder.
    """
    home = home or Home.current()
    check_sealed(loaded)
    explorer = Explorer(loaded, template, space_of(loaded), home, into or home.runs, watch or Quiet(), seed)
    return await explorer.perform(runs, jobs, shrink_runs)


class Explorer:
    """One exploration. Use once."""

    def __init__(
        self, loaded: Loaded, template: SealedTemplate, space: Space, home: Home, into: Path, watch: Watch, seed: int
    ) -> None:
        self._loaded = loaded
        self._template = template
        self._space = space
        self._home = home
        self._watch = watch
        self._seed = seed
        self._drive = compile_instant(loaded, digest=template.digest, seed=seed)
        self._folder = RunFolder.create(into, f"explore-{loaded.experiment.name}")
        self._tried: list[Tried] = []
        self._known: dict[Case, bool] = {}
        self._failing: list[Failing] = []
        self._number = 0

    async def perform(self, runs: int, jobs: int, shrink_runs: int) -> Explored:
        """See `explore`."""
        began = time.monotonic()
        driven = self._folder.below("drive")
        driven.write_json("plan.json", self._drive.model_dump(mode="json"))
        instant = Instant(
            self._drive, self._template, driven, home=self._home, seed=self._seed, on_event=self._watch.driving
        )
        found = Explored(self._loaded.experiment.name, self._folder.path, coverage(self._space, ()), _no_result())
        async with instant:
            found.drive = judge(self._drive, instant.log.events, {})
            driven.save_result(found.drive)
            if instant.there:
                searching = time.monotonic()
                await self._search(instant, runs, jobs)
                found.search_seconds = time.monotonic() - searching
                found.runs = len(self._tried)
                taught = (Verdict.SURVIVED, Verdict.FAILED)
                found.why_nothing = next((one.why for one in self._tried if one.verdict not in taught), "")
                if self._failing:
                    found.first = min(self._failing, key=lambda one: one.guest_seconds)
                    found.shortest = await self._shrink(instant, found.first, shrink_runs, found.steps)
        found.coverage = coverage(self._space, self._tried)
        found.host_seconds = time.monotonic() - began
        self._folder.write_json("exploration.json", found.as_dict())
        self._folder.close()
        return found

    async def _search(self, instant: Instant, runs: int, jobs: int) -> None:
        cases = self._space.cases(self._seed)
        left = runs

        async def worker() -> None:
            nonlocal left
            while left > 0 and not self._failing and not self._fruitless():
                left -= 1
                await self._try(instant, next(cases))

        async with asyncio.TaskGroup() as group:
            for _ in range(min(jobs, runs)):
                group.create_task(worker())

    def _fruitless(self) -> bool:
        """The first runs taught nothing, all for one reason: the next ones would not, either."""
        first = self._tried[:FRUITLESS]
        return (
            len(first) == FRUITLESS == len(self._tried)
            and len({(one.verdict, one.why) for one in first}) == 1
            and (first[0].verdict in (Verdict.VOID, Verdict.UNKNOWN))
        )

    async def _try(self, instant: Instant, case: Case) -> None:
        outcome, failing = await self._carry_out(instant, case)
        assert outcome.sealed is not None
        why = outcome.result.reasons[0].text if outcome.result.reasons else ""
        times = outcome.sealed.guest_seconds, outcome.sealed.host_seconds
        one = Tried(len(self._tried) + 1, case, outcome.verdict, why, *times)
        self._tried.append(one)
        self._note(one)
        if failing is not None:
            self._failing.append(failing)
        self._watch.tried(one)

    def _note(self, one: Tried) -> None:
        values = {name: str(value) for name, value in self._space.values(one.case).items()}
        line = {"run": one.number, "seed": one.case.seed, "values": values, "act_at": one.case.at}
        line |= {"verdict": str(one.verdict), "why": one.why, "guest_seconds": round(one.guest_seconds, 6)}
        with (self._folder.path / TRIED).open("a") as file:
            file.write(json.dumps(line) + "\n")

    async def _carry_out(self, instant: Instant, case: Case) -> tuple[SealedOutcome, Failing | None]:
        """One run. The folder of one that did not fail is removed again."""
        one = variant(self._loaded, self._space, case)
        plan = compile_case(one, self._space, case, digest=self._template.digest)
        self._number += 1
        folder = self._folder.below(f"{self._number:05}")
        folder.write_json("spec.json", one.experiment.model_dump(mode="json", by_alias=True))
        folder.write_json("plan.json", plan.model_dump(mode="json"))
        bundle.write_recipe(folder, self._loaded.recipe)
        drive = bundle.Drive(plan=self._drive, seed=self._seed)
        sealed = bundle.about(self._template, case.seed, drive)
        try:
            outcome = await perform(folder, one, plan, instant.start(), sealed, _ignore)
        except BaseException:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        assert outcome.sealed is not None
        if outcome.verdict is not Verdict.FAILED:
            if outcome.verdict is Verdict.SURVIVED:
                shutil.rmtree(folder.path, ignore_errors=True)
            return outcome, None
        values = self._space.values(case)
        return outcome, Failing(case, values, outcome.result, folder.path, outcome.sealed.guest_seconds)

    async def _shrink(self, instant: Instant, first: Failing, most: int, steps: list[dict[str, Any]]) -> Failing:
        best, wanted = first, symptom(first.result)
        asking = shrink(self._space, first.case)
        try:
            step = next(asking)
            while len(steps) < most:
                failed = self._known.get(step.case)
                if failed is None:
                    outcome, failing = await self._carry_out(instant, step.case)
                    assert outcome.sealed is not None
                    failed = failing is not None and symptom(failing.result) == wanted
                    self._known[step.case] = failed
                    if failed and failing is not None:
                        best = failing
                    seconds = outcome.sealed.guest_seconds
                    steps.append({"step": step.text, "failed": failed, "guest_seconds": round(seconds, 6)})
                    self._watch.step(step.text, failed, seconds)
                step = asking.send(failed)
        except StopIteration:
            pass
        return best


def symptom(result: Result) -> tuple[str, str]:
    """What makes two failures the same: the reason that decided, and the first probe that did not hold."""
    code = result.reasons[0].code if result.reasons else ""
    broken = [probe.probe for probe in result.probes if not probe.holds and probe.phase != "before"]
    return code, broken[0] if broken else ""


def _no_result() -> Result:
    return Result(experiment="", verdict=Verdict.UNKNOWN, reasons=())


def _ignore(_: object) -> None:
    """Nobody watches."""
