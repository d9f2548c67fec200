"""`stormcell run`: one or more experiments, one table."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormcell.cli.interrupt import ended_once
from stormcell.cli.output import emit_json, json_flag, report_error, safe, say
from stormcell.cli.travel import Travel, travel_options

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from stormcell.cli.progress import Watcher
    from stormcell.engine.api import Outcome
    from stormcell.engine.conductor import OnEvent
    from stormcell.engine.load import Loaded
    from stormcell.spec.errors import StormcellError


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path))
@click.option("--branch", "branches", multiple=True, metavar="NAME", help="Run only this branch, and the control.")
@click.option("--sealed", is_flag=True, help="In a machine whose time is its instruction count: the same bits again.")
@click.option(
    "--replay", "replayed", type=click.Path(path_type=Path), metavar="FOLDER", help="Repeat a sealed run, and compare."
)
@travel_options
@click.option("--dry-run", is_flag=True, help="Print the plan and start nothing.")
@click.option("--seed", type=int, default=0, show_default=True, help="Drives what the runner draws at random.")
@click.option("--repeat", type=click.IntRange(1, 1000), default=1, show_default=True, help="Runs of each experiment.")
@click.option(
    "--jobs",
    type=click.IntRange(1, 64),
    help="Runs at the same time: 1 for plain experiments, for campaigns one a processor.",
)
@click.option(
    "--fail-fast/--run-all", "fail_fast", default=None, help="End a campaign at its first failure, or do not."
)
@click.option("--resume", type=click.Path(path_type=Path), metavar="FOLDER", help="Go on with a campaign.")
@click.option("--retry-unknown", is_flag=True, help="With --resume: run those again whose outcome is unknown.")
@click.option("--runs", type=click.Path(path_type=Path), help="Keep the runs' folders below this one.")
@click.option("--markdown", is_flag=True, help="Write the table as Markdown.")
@click.option("--report", "report_to", type=click.Path(path_type=Path), help="Write a page, JUnit XML and JSON there.")
@json_flag
def run(
    files: tuple[Path, ...],
    branches: tuple[str, ...],
    sealed: bool,
    replayed: Path | None,
    travel: Travel,
    dry_run: bool,
    seed: int,
    repeat: int,
    jobs: int | None,
    fail_fast: bool | None,
    resume: Path | None,
    retry_unknown: bool,
    runs: Path | None,
    markdown: bool,
    report_to: Path | None,
    as_json: bool,
) -> None:
    """Run experiments and campaigns, and say what came out.

    Exit code: 0 survived, 1 failed, 2 bad usage or spec, 3 void, 4 unknown; of several runs the first of 2, 1, 4, 3, 0.
    """
    from stormcell.cli.campaign import Asked, campaigns_of
    from stormcell.cli.results import markdown_table, show_results

    travel.check(replayed, as_json)
    if replayed is not None or travel.begun:
        from stormcell.cli.replay import replay_run

        if files or resume or branches or sealed or dry_run or repeat > 1 or report_to is not None:
            option = "--replay FOLDER" if replayed is not None else "--from NAME"
            raise click.UsageError(f"{option} stands alone: it says all that is to be done")
        if replayed is not None and not travel.begun:
            sys.exit(replay_run(replayed, as_json))
        given = click.get_current_context().get_parameter_source("seed") is not click.core.ParameterSource.DEFAULT
        sys.exit(travel.run(replayed, runs=runs, seed=seed if given else None, as_json=as_json))
    asked = Asked(seed, repeat, jobs, fail_fast, retry_unknown, runs, dry_run, markdown, as_json)
    if bool(files) == bool(resume):
        raise click.UsageError("FILES to run, or --resume FOLDER: one of them is needed")
    if retry_unknown and resume is None:
        raise click.UsageError("--retry-unknown goes with --resume FOLDER")
    campaigns = campaigns_of(files, resume, asked)
    if campaigns and sealed:
        raise click.UsageError("--sealed is about single experiments; `stormcell explore` does many runs")
    if campaigns and branches:
        raise click.UsageError("--branch is about one experiment, not about campaigns and repeats")
    loaded = [] if campaigns else _load(files, branches, sealed)
    if report_to is not None:
        _prepare(report_to, dry_run)
    if campaigns:
        code = campaigns.run()
        sys.exit(code if report_to is None else campaigns.report(report_to))
    if dry_run:
        _dry_run(loaded, branches, as_json)
        return
    batch = _Batch(loaded, seed, jobs or 1, runs, branches, sealed)
    try:
        ended_once(batch.perform())
    except KeyboardInterrupt:
        batch.interrupted = True
        say("interrupted; what had been started was released")
    if as_json:
        emit_json(batch.as_dict())
    elif markdown:
        click.echo(safe(markdown_table(batch.outcomes())))
    else:
        show_results(batch.outcomes())
    sys.exit(batch.exit_code() if report_to is None else batch.report(report_to))


def _load(files: tuple[Path, ...], branches: tuple[str, ...], sealed: bool) -> list[Loaded]:
    """All files, or the errors of all and nothing started."""
    from stormcell.engine.branches.run import check_branches
    from stormcell.engine.load import check_fault, load_file
    from stormcell.engine.sealed.refusals import check_sealed
    from stormcell.spec.errors import StormcellError

    loaded = []
    faulty = False
    for file in files:
        try:
            loaded.append(load_file(file))
            check_fault(loaded[-1])
            check_branches(loaded[-1], branches)
            if sealed:
                check_sealed(loaded[-1])
        except StormcellError as error:
            report_error(error)
            faulty = True
    if faulty:
        say("nothing was started")
        sys.exit(2)
    return loaded


def _prepare(report_to: Path, dry_run: bool) -> None:
    """A report that could not be written is known before an hour of runs, not after."""
    from stormcell.report.write import prepare

    if dry_run:
        raise click.UsageError("--dry-run runs nothing that --report could tell of")
    prepare(report_to)


def _dry_run(loaded: list[Loaded], branches: tuple[str, ...], as_json: bool) -> None:
    from stormcell.cli.plans import plan_data, show_plan

    if as_json:
        plans = [plan_data(item, branches) for item in loaded]
        emit_json(plans if len(plans) > 1 else plans[0])
        return
    for item in loaded:
        show_plan(item, branches)


@dataclass
class _Batch:
    """Experiments of one command, at most `jobs` at the same time; results in the order of the files."""

    loaded: list[Loaded]
    seed: int
    jobs: int
    runs: Path | None
    branches: tuple[str, ...] = ()
    sealed: bool = False
    done: dict[int, Outcome] = field(default_factory=dict)
    errors: dict[int, StormcellError] = field(default_factory=dict)
    interrupted: bool = False

    async def perform(self) -> None:
        """Templates first, one after another; then the runs."""
        from stormcell.cli.progress import Watcher
        from stormcell.engine.api import Outcome
        from stormcell.spec.witness import hearing

        concluded: dict[object, Outcome] = {}

        def hear(result: Any, folder: Path) -> None:
            concluded[asyncio.current_task()] = Outcome(result, folder)

        with Watcher(total=len(self.loaded)) as watcher, hearing(hear):
            one_of = await self._ready(watcher)
            room = asyncio.Semaphore(self.jobs)

            async def one(number: int, item: Loaded) -> None:
                from stormcell.spec.errors import StormcellError

                async with room:
                    line = watcher.begin(number, item.experiment.name)
                    try:
                        outcome = await one_of(item, line.event)
                    except StormcellError as error:
                        self.errors[number] = error
                        line.failed(error)
                    except asyncio.CancelledError:
                        line.interrupted()
                        if (unknown := concluded.get(asyncio.current_task())) is not None:
                            self.done[number] = unknown
                        raise
                    else:
                        self.done[number] = outcome
                        line.done(outcome)

            async with asyncio.TaskGroup() as group:
                for number, item in enumerate(self.loaded, 1):
                    group.create_task(one(number, item))

    async def _ready(self, watcher: Watcher) -> Callable[[Loaded, OnEvent], Awaitable[Outcome]]:
        """The templates; then what runs one experiment."""
        from stormcell.engine.api import run_async
        from stormcell.engine.sealed.run import run_sealed
        from stormcell.spec.home import Home
        from stormcell.template.build import build
        from stormcell.template.sealed import build_sealed

        home = Home.current()
        recipes = {str(item.recipe): item.recipe for item in self.loaded}
        if self.sealed:
            kept = {key: await build_sealed(one, home=home, progress=watcher.build) for key, one in recipes.items()}

            async def seal(item: Loaded, tell: OnEvent) -> Outcome:
                template = kept[str(item.recipe)]
                return await run_sealed(item, seed=self.seed, runs=self.runs, template=template, on_event=tell)

            return seal
        templates = {key: await build(one, home=home, progress=watcher.build) for key, one in recipes.items()}
        jobs = self.jobs if len(self.loaded) == 1 else 1

        async def live(item: Loaded, tell: OnEvent) -> Outcome:
            template, branches = templates[str(item.recipe)], self.branches
            return await run_async(
                item, seed=self.seed, runs=self.runs, template=template, on_event=tell, branches=branches, jobs=jobs
            )

        return live

    def outcomes(self) -> list[Outcome]:
        """In the order of the files."""
        return [self.done[number] for number in sorted(self.done)]

    def exit_code(self) -> int:
        """One for all."""
        from stormcell.spec.verdict import EXIT_CODE, Verdict, exit_code

        codes = [EXIT_CODE[outcome.verdict] for outcome in self.done.values()]
        codes += [error.exit_code for error in self.errors.values()]
        return exit_code([*codes, *[EXIT_CODE[Verdict.UNKNOWN]] * self.interrupted])

    def report(self, out: Path) -> int:
        """Write it. One exit code for all, and for a report that could not be written."""
        from stormcell.cli.report import write_report
        from stormcell.spec.verdict import exit_code

        sources = {number: item.source for number, item in enumerate(self.loaded, 1)}
        folders = [(self.done[number].folder, sources[number]) for number in sorted(self.done)]
        errors = [(sources[number], self.errors[number]) for number in sorted(self.errors)]
        code = write_report(out, folders, errors, interrupted=self.interrupted)
        return exit_code([self.exit_code(), code]) if code else self.exit_code()

    def as_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "results": [outcome.as_dict() for outcome in self.outcomes()],
            "errors": [self.errors[number].as_dict() for number in sorted(self.errors)],
            "interrupted": self.interrupted,
            "exit_code": self.exit_code(),
        }
