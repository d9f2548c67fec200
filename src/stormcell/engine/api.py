"""Running an experiment, from Python and for the command line."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from stormcell.engine.branches.run import Branching, check_branches, judge_again
from stormcell.engine.compile import compile_plan
from stormcell.engine.conductor import Conductor, OnEvent
from stormcell.engine.folder import RunFolder, read_plan, read_receipts
from stormcell.engine.load import Loaded, load_file, load_mapping
from stormcell.engine.receipts import receipt
from stormcell.judge.events import read_events
from stormcell.judge.verdict import judge
from stormcell.spec.errors import HostError, NotSurvived, StormcellError
from stormcell.spec.experiment import Experiment
from stormcell.spec.home import Home
from stormcell.spec.plan import Plan
from stormcell.spec.verdict import EXIT_CODE, Reason, Result, Verdict
from stormcell.spec.witness import tell
from stormcell.template.build import build
from stormcell.template.model import Progress, Template


@dataclass(frozen=True)
class Outcome:
    """The answer of one run, and where all it rests on is kept."""

    result: Result
    folder: Path

    @property
    def verdict(self) -> Verdict:
        """`survived`, `failed`, `void` or `unknown`."""
        return self.result.verdict

    def check(self, *wanted: str) -> Outcome:
        """Itself when the verdict is `survived`, or one of `wanted`; raises NotSurvived with the reasons otherwise."""
        __tracebackhide__ = True
        check_verdict(self.result, self.folder, wanted)
        return self

    def as_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {**self.result.model_dump(mode="json"), "folder": str(self.folder)}


def check_verdict(result: Result, folder: Path, wanted: Sequence[str] = ()) -> None:
    """Raises NotSurvived unless the verdict is `survived`, or one of `wanted`."""
    __tracebackhide__ = True  # pytest shows the caller's line instead
    if str(result.verdict) in (wanted or (Verdict.SURVIVED,)):
        return
    first, *more = [f"{reason.text} ({reason.code})" for reason in result.reasons] or ["no reason was given"]
    asked = f" and not {' or '.join(wanted)}" if wanted else ""
    raise NotSurvived(
        f"{result.experiment} is {result.verdict}{asked}: {first}",
        result=result,
        folder=folder,
        detail="\n".join([*more, f"the run's folder: {folder}"]),
    )


Conduct = Callable[[Plan, Template, RunFolder, OnEvent], Conductor]


def _ignore(_: object) -> None:
    """Nobody watches."""


async def run_async(
    experiment: Path | str | Mapping[str, Any] | Experiment | Loaded,
    *,
    seed: int = 0,
    home: Home | None = None,
    runs: Path | None = None,
    template: Template | None = None,
    on_event: OnEvent = _ignore,
    on_build: Callable[[Progress], None] = _ignore,
    conduct: Conduct = Conductor,
    branches: Sequence[str] = (),
    jobs: int = 1,
) -> Outcome:
    """Run one experiment; its template is built first when there is none that matches and none was given.

    Of an experiment with branches `branches` names those to run beside the control (none: all), `jobs` at a time; the
    events of a branch have a `branch`.

    Raises SpecError, HostError or TemplateError before anything was started, and leaves no folder then. Once a machine
    was asked for, every end is an outcome: a lost one is `unknown`. Cancelling releases the machine, writes the result,
    raises CancelledError. Raises HostError, with the exit code of `unknown`, on a host that cannot keep what happens.
    `conduct` makes what performs the plan, for those that begin from another machine than the template's snapshot.
    """
    home = home or Home.current()
    loaded = loaded_from(experiment, home)
    check_branches(loaded, branches)
    template = template or await build(loaded.recipe, home=home, progress=on_build)
    if loaded.branches:
        branching = Branching(loaded, template, seed=seed, only=branches, jobs=jobs, on_event=on_event)
        return await _parted(branching, runs or home.runs, loaded)
    plan = compile_plan(loaded.experiment, loaded.disturbances, template_digest=template.digest, seed=seed)
    folder = begun(runs or home.runs, loaded, plan)
    conductor = conduct(plan, template, folder, on_event)
    return await performed(
        conductor, folder, conductor.perform(), lambda: conclude(folder, loaded, plan, conductor.events)
    )


async def performed(
    conductor: Performing, folder: RunFolder, work: Awaitable[None], concluded: Callable[[], Result]
) -> Outcome:
    """Do the work of `conductor`; whatever its end is, conclude. Of a run that was refused nothing is kept."""
    with outcome_lost(conductor):
        try:
            await work
        finally:
            folder.close()
            if conductor.refused:
                folder.discard()
            else:
                result = concluded()
                tell(result, folder.path)
    return Outcome(result, folder.path)


class Performing(Protocol):
    """Whoever performs a plan."""

    @property
    def refused(self) -> bool:
        """This host has no machine for it: nothing was begun."""


@contextlib.contextmanager
def outcome_lost(conductor: Performing) -> Iterator[None]:
    """A host that cannot keep what happens (a full disk) in the middle of a run loses its outcome."""
    try:
        yield
    except HostError as error:
        if not conductor.refused:
            error.exit_code = EXIT_CODE[Verdict.UNKNOWN]
        raise


async def _parted(branching: Branching, runs: Path, loaded: Loaded) -> Outcome:
    """The whole of an experiment with branches."""
    folder = begun(runs, loaded, branching.plan)

    def concluded() -> Result:
        result = _concluded(branching.plan, branching.conclude)
        folder.save_result(result)
        return result

    return await performed(branching, folder, branching.perform(folder), concluded)


def begun(runs: Path, loaded: Loaded, plan: Plan) -> RunFolder:
    """The run's folder with what was asked and what is to be done; or none at all, when there is no room for that."""
    folder = RunFolder.create(runs, plan.experiment)
    try:
        if loaded.text:
            folder.write("spec.yaml", loaded.text)
        folder.write_json("spec.json", loaded.experiment.model_dump(mode="json", by_alias=True))
        folder.write_json("plan.json", plan.model_dump(mode="json"))
    except BaseException:
        folder.discard()
        raise
    return folder


def run(
    experiment: Path | str | Mapping[str, Any] | Experiment | Loaded,
    *,
    seed: int = 0,
    home: Home | None = None,
    runs: Path | None = None,
    template: Template | None = None,
    on_event: OnEvent = _ignore,
    on_build: Callable[[Progress], None] = _ignore,
    branches: Sequence[str] = (),
    jobs: int = 1,
) -> Outcome:
    """`run_async` for code without an event loop."""
    return asyncio.run(
        run_async(
            experiment,
            seed=seed,
            home=home,
            runs=runs,
            template=template,
            on_event=on_event,
            on_build=on_build,
            branches=branches,
            jobs=jobs,
        )
    )


def loaded_from(experiment: Path | str | Mapping[str, Any] | Experiment | Loaded, home: Home) -> Loaded:
    """Checked. Raises SpecError, TemplateNotFound."""
    if isinstance(experiment, Loaded):
        return experiment
    if isinstance(experiment, str | Path):
        return load_file(Path(experiment), home)
    return load_mapping(experiment, home=home)


def conclude(folder: RunFolder, loaded: Loaded, plan: Plan, events: list[dict[str, Any]]) -> Result:
    """Receipts, then the verdict, both kept. A judge that fails is an unknown outcome, never a pass."""

    def judged() -> Result:
        receipts = {item.id: receipt(item, plan, events) for item in loaded.disturbances}
        folder.save_receipts(receipts)
        return judge(plan, events, receipts)

    result = _concluded(plan, judged)
    folder.save_result(result)
    return result


def _concluded(plan: Plan, judged: Callable[[], Result]) -> Result:
    try:
        return judged()
    except StormcellError:
        raise
    except Exception as error:
        text = f"the judge itself failed: {type(error).__name__}: {error}"
        return Result(
            experiment=plan.experiment,
            question=plan.question,
            verdict=Verdict.UNKNOWN,
            reasons=(Reason(code="judge_error", text=text),),
            prediction=plan.prediction,
            instruction_time=plan.sealed,
        )


def judge_folder(path: Path) -> Result:
    """The verdict, from what a run's folder holds and nothing else. Raises SpecError when it is damaged."""
    plan = read_plan(path)
    if plan.role == "drive":
        return judge_again(path, plan)
    events = read_events(path / "events.jsonl")
    return judge(plan, events, read_receipts(path))


def saved_result(path: Path) -> dict[str, Any] | None:
    """What the run itself concluded, None when it never came to that."""
    try:
        found = json.loads((path / "result.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
