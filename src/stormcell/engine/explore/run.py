"""Explore an experiment: cases from one instant, until one breaks it; then a smaller one that still does, repeated."""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path

from stormcell.engine.explore.checks import check_values, checked, wrong
from stormcell.engine.explore.coverage import Tried, coverage
from stormcell.engine.explore.outcome import Explored, Failing, Quiet, Watch
from stormcell.engine.explore.plans import compile_case, compile_instant
from stormcell.engine.explore.shrink import shrink
from stormcell.engine.explore.space import ENDLESS, Case, Space
from stormcell.engine.folder import RunFolder
from stormcell.engine.load import Loaded
from stormcell.engine.sealed import bundle
from stormcell.engine.sealed.instant import Instant
from stormcell.engine.sealed.refusals import check_sealed
from stormcell.engine.sealed.run import SealedOutcome, perform, replay
from stormcell.judge.events import read_events
from stormcell.judge.verdict import judge
from stormcell.spec.errors import StormcellError
from stormcell.spec.exploration import Exploration
from stormcell.spec.home import Home
from stormcell.spec.verdict import Result, Verdict
from stormcell.template.sealed import SealedTemplate

TRIED = "tried.jsonl"
SHRINK_RUNS = 60
FRUITLESS = 5
CANCELLED = (asyncio.CancelledError, KeyboardInterrupt)


def space_of(loaded: Loaded) -> Space:
    """Of an experiment. Raises SpecError when its values make no experiment."""
    experiment = loaded.experiment
    exploration = experiment.explore or Exploration()
    faults = [item.id for item in loaded.disturbances]
    lasts = any(getattr(experiment, key) > 0 and key not in exploration.vary for key in ("settle", "hold"))
    loads = [load.name for load in experiment.load]
    lasting = [load.name for load in experiment.load if load.until == "end"]
    space = Space.of(exploration, faults, loads, lasts, lasting)
    check_values(loaded, space)  # what is not valid is told before anything starts
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

    The smallest failing case is then repeated from its folder. Raises SpecError for what cannot be sealed or varied,
    and what the host lacked. Cancelling releases what runs and raises CancelledError; `watch.ended` and
    exploration.json have what was known by then.
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
        found = Explored(self._loaded.experiment.name, self._folder.path, coverage(self._space, ()), _no_result())
        try:
            await self._all(found, runs, jobs, shrink_runs)
        except BaseException as error:
            found.ended_by = "interrupted" if isinstance(error, CANCELLED) else str(error)
            raise
        finally:
            found.host_seconds = time.monotonic() - began
            try:
                self._save(found)
            finally:
                self._folder.close()
                self._watch.ended(found)
        return found

    def _save(self, found: Explored) -> None:
        """Raises HostError, unless something else ended it: that is told, and not what came of it."""
        try:
            self._folder.write_json("exploration.json", found.as_dict())
        except StormcellError as error:
            if not found.ended_by:
                found.ended_by = str(error)
                raise

    async def _all(self, found: Explored, runs: int, jobs: int, shrink_runs: int) -> None:
        driven = self._folder.below("drive")
        driven.write_json("plan.json", self._drive.model_dump(mode="json"))
        instant = Instant(
            self._drive, self._template, driven, home=self._home, seed=self._seed, on_event=self._watch.driving
        )
        async with instant:
            found.drive = judge(self._drive, instant.log.events, {})
            driven.save_result(found.drive)
            if not instant.there:
                return
            searching = time.monotonic()
            try:
                await self._search(instant, runs, jobs)
            finally:
                found.search_seconds = time.monotonic() - searching
                self._known_of(found)
            if found.first is not None:
                await self._shrink(instant, found, shrink_runs)
        if found.shortest is not None:
            found.replay = await replay(found.shortest.folder, home=self._home, on_event=self._watch.confirming)

    def _known_of(self, found: Explored) -> None:
        """What the runs of the search say, at any moment."""
        found.runs = len(self._tried)
        found.coverage = coverage(self._space, self._tried)
        taught = (Verdict.SURVIVED, Verdict.FAILED)
        found.why_nothing = next((one.why for one in self._tried if one.verdict not in taught), "")
        if self._failing and found.first is None:
            found.first = found.shortest = min(self._failing, key=lambda one: one.guest_seconds)

    async def _search(self, instant: Instant, runs: int, jobs: int) -> None:
        cases = self._space.cases(self._seed)
        left = runs

        async def worker() -> None:
            nonlocal left
            while left > 0 and not self._failing and not self._fruitless():
                left -= 1
                await self._try(instant, next(cases))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(jobs, runs)):
                    group.create_task(worker())
        except ExceptionGroup as group_error:
            raise group_error.exceptions[0] from None  # that of the first; the others were ended for it

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
        if failing is not None:
            self._failing.append(failing)  # before anything is written: a full disk takes it from nobody
        self._note(one)
        self._watch.tried(one)

    def _note(self, one: Tried) -> None:
        values = {name: str(value) for name, value in self._space.values(one.case).items()}
        line = {"run": one.number, "seed": one.case.seed, "values": values, "act_at": one.case.at}
        line |= {"verdict": str(one.verdict), "why": one.why, "guest_seconds": round(one.guest_seconds, 6)}
        self._folder.append(TRIED, line)

    async def _carry_out(self, instant: Instant, case: Case) -> tuple[SealedOutcome, Failing | None]:
        """One run. The folder of one that did not fail is removed again."""
        one = checked(self._loaded, self._space, case)
        plan = compile_case(one, self._space, case, digest=self._template.digest)
        self._number += 1
        folder = self._folder.below(f"{self._number:05}")
        drive = bundle.Drive(plan=self._drive, seed=self._seed)
        sealed = bundle.about(self._template, case.seed, drive)
        try:
            folder.write_json("spec.json", one.experiment.model_dump(mode="json", by_alias=True))
            folder.write_json("plan.json", plan.model_dump(mode="json"))
            bundle.write_recipe(folder, self._loaded.recipe)
            outcome = await perform(folder, one, plan, instant.start(), sealed, _ignore)
        except BaseException:
            shutil.rmtree(folder.path, ignore_errors=True)
            raise
        assert outcome.sealed is not None
        if outcome.verdict is not Verdict.FAILED:
            if outcome.verdict is Verdict.SURVIVED:
                shutil.rmtree(folder.path, ignore_errors=True)
            return outcome, None
        failing = Failing(
            case,
            self._space.values(case),
            outcome.result,
            folder.path,
            outcome.sealed.guest_seconds,
            await asyncio.to_thread(_disturbances, folder.path, case),
        )
        return outcome, failing

    async def _shrink(self, instant: Instant, found: Explored, most: int) -> None:
        """`found.shortest` is the smallest so far at any moment."""
        assert found.first is not None
        first = found.first
        wanted = symptom(first.result)
        asking = shrink(self._space, first.case, ENDLESS if first.disturbances is None else first.disturbances)
        try:
            step = next(asking)
            while len(found.steps) < most:
                failed = self._known.get(step.case)
                if failed is None and wrong(self._loaded, self._space, step.case):
                    failed = self._known[step.case] = False
                if failed is None:
                    outcome, failing = await self._carry_out(instant, step.case)
                    assert outcome.sealed is not None
                    failed = failing is not None and symptom(failing.result) == wanted
                    self._known[step.case] = failed
                    if failed and failing is not None:
                        found.shortest = failing
                    seconds = outcome.sealed.guest_seconds
                    found.steps.append({"step": step.text, "failed": failed, "guest_seconds": round(seconds, 6)})
                    self._watch.step(step.text, failed, seconds)
                step = asking.send(failed)
        except StopIteration:
            pass


def _disturbances(folder: Path, case: Case) -> int | None:
    """How far the noise of a run came; None when there was none or nobody told."""
    told = [event["moments"] for event in read_events(folder / bundle.EVENTS) if event.get("event") == "noise"]
    return case.first + told[-1] if told else None


def symptom(result: Result) -> tuple[str, str]:
    """What makes two failures the same: the reason that decided, and the first probe that did not hold."""
    code = result.reasons[0].code if result.reasons else ""
    broken = [probe.probe for probe in result.probes if not probe.holds and probe.phase != "before"]
    return code, broken[0] if broken else ""


def _no_result() -> Result:
    return Result(experiment="", verdict=Verdict.UNKNOWN, reasons=())


def _ignore(_: object) -> None:
    """Nobody watches."""
