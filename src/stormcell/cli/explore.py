"""`stormcell explore`: sealed runs over the space of an experiment, until one breaks it."""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormcell.cli.interrupt import ended_once
from stormcell.cli.output import emit_json, json_flag, safe, say

if TYPE_CHECKING:
    from stormcell.cli.screen import Screen
    from stormcell.engine.explore.coverage import Coverage, Tried
    from stormcell.engine.explore.outcome import Explored, Failing
    from stormcell.engine.explore.space import Space
    from stormcell.engine.load import Loaded

SHOWN = 5


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--runs", type=click.IntRange(1, 100_000), default=50, show_default=True, help="Cases to try at most.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the first case; each has the next one.")
@click.option("--jobs", type=click.IntRange(1, 64), help="Runs at the same time: by default one a processor.")
@click.option("--shrink", "shrink_runs", type=click.IntRange(0, 10_000), default=60, show_default=True,
              help="Runs to make a failing case smaller, at most.")  # fmt: skip
@click.option("--into", type=click.Path(path_type=Path), help="Keep the exploration's folder below this one.")
@click.option("--dry-run", is_flag=True, help="Print the space and its first cases, and start nothing.")
@json_flag
def explore(
    file: Path,
    runs: int,
    seed: int,
    jobs: int | None,
    shrink_runs: int,
    into: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Look for a case that breaks an experiment: seeds, and what its `explore` section varies.

    Exit code: 0 no case broke it, 1 one did, 2 bad usage or spec, 3 nothing was learnt, 4 unknown or interrupted.
    """
    from stormcell.engine.explore.run import space_of
    from stormcell.engine.load import load_file
    from stormcell.engine.sealed.refusals import check_sealed
    from stormcell.spec.errors import StormcellError
    from stormcell.spec.verdict import EXIT_CODE

    loaded = load_file(file)
    check_sealed(loaded)
    space = space_of(loaded)
    if dry_run:
        _dry_run(loaded, space, seed, min(runs, SHOWN), as_json)
        return
    known: list[Explored] = []
    code: int | None = None
    work = _explore(loaded, runs, seed, jobs or os.cpu_count() or 1, shrink_runs, into, known)
    try:
        ended_once(work)
    except KeyboardInterrupt:
        if not known:
            say("interrupted; what had been started was released")
            sys.exit(4)
    except StormcellError as error:
        if not known or not known[0].runs:
            raise
        say(f"error: {error}")  # behind runs that were made: what came of them is told as well
        if known[0].first is None:
            code = error.exit_code
    _tell(known[0], as_json)
    sys.exit(EXIT_CODE[known[0].verdict] if code is None else code)


def _tell(found: Explored, as_json: bool) -> None:
    if as_json:
        emit_json(found.as_dict())
    else:
        _show(found)


async def _explore(
    loaded: Loaded, runs: int, seed: int, jobs: int, shrink_runs: int, into: Path | None, known: list[Explored]
) -> None:
    """Puts into `known` what is known at the end, however that comes."""
    from stormcell.cli.progress import Watcher
    from stormcell.engine.explore.run import explore as perform
    from stormcell.template.sealed import build_sealed

    with Watcher(total=1) as watcher:
        template = await build_sealed(loaded.recipe, progress=watcher.build)
        follow = _Follow(watcher, loaded.experiment.name, runs, known)
        try:
            await perform(
                loaded, template, runs=runs, seed=seed, jobs=jobs, shrink_runs=shrink_runs, into=into, watch=follow
            )
        finally:
            follow.line.close()


class _Follow:
    """The progress line."""

    def __init__(self, watcher: Any, name: str, runs: int, known: list[Explored]) -> None:
        import time

        self._known = known
        self._clock = time.monotonic
        self._began = self._clock()
        self._runs = runs
        self._steps = 0
        self._repeating = False
        self._counts: dict[str, int] = {}
        self.line = watcher.begin(1, f"explore {name}")
        self.line.show("driving to the instant")

    def driving(self, event: Any) -> None:
        """On the way there."""
        if event.get("event") == "await":
            self._began = self._clock()

    def tried(self, one: Tried) -> None:
        """One more."""
        self._counts[str(one.verdict)] = self._counts.get(str(one.verdict), 0) + 1
        done = sum(self._counts.values())
        pace = done / max(self._clock() - self._began, 1e-9)
        said = ", ".join(f"{count} {verdict}" for verdict, count in sorted(self._counts.items()))
        left = (self._runs - done) / pace
        self.line.show(f"{done} of {self._runs} runs: {said}; {pace * 60:.0f} a minute, at most {left:.0f} s left")

    def step(self, text: str, failed: bool, guest_seconds: float) -> None:
        """One step of shrinking."""
        self._steps += 1
        self.line.show(f"shrinking, run {self._steps}: {text}: {'still fails' if failed else 'does not fail'}")

    def confirming(self, event: Any) -> None:
        """The smallest case once more."""
        if not self._repeating:
            self._repeating = True
            self.line.show("repeating the smallest case from its folder")

    def ended(self, found: Explored) -> None:
        """Kept for who shows it."""
        self._known.append(found)


def _dry_run(loaded: Loaded, space: Space, seed: int, shown: int, as_json: bool) -> None:
    cases = list(itertools.islice(space.cases(seed), shown))
    if as_json:
        emit_json(
            {
                "experiment": loaded.experiment.name,
                "dimensions": [{"name": one.name, "over": one.text} for one in space.dimensions],
                "moments": list(space.window) if space.window else None,
                "schedule_noise_gap": space.noise_gap,
                "faults": list(space.faults),
                "loads": list(space.loads),
                "first_cases": [{"seed": c.seed, "act_at": c.at, "values": space.values(c)} for c in cases],
            }
        )
        return
    click.echo(safe(f"the space of {loaded.experiment.name}: seeds from {seed} on"))
    for dimension in space.dimensions:
        click.echo(safe(f"  {dimension.name}: {dimension.text}"))
    if space.window:
        click.echo(f"  moment of the act: {space.window[0]:g} s to {space.window[1]:g} s after the instant")
    if space.noise_gap:
        click.echo(f"  schedules: disturbed every {space.noise_gap * 1000:g} ms on average")
    click.echo("its first cases:")
    for case in cases:
        click.echo(safe(f"  {_called(case.seed, space.values(case), case.at)}"))


def _called(seed: int, values: dict[str, Any], at: float) -> str:
    said = [f"seed {seed}", *(f"{name} = {value}" for name, value in values.items())]
    return ", ".join([*said, f"the act at {at:g} s"] if at else said)


def _show(found: Explored) -> None:
    from rich.markup import escape

    from stormcell.cli.progress import MARK
    from stormcell.cli.screen import Screen

    console = Screen(piped=200)
    style = MARK[str(found.verdict)]
    console.print(f"[{style} bold]{_headline(found)}[/{style} bold]  {escape(found.experiment)}")
    if not found.runs and found.drive.reasons:
        console.print(f"  {escape(found.drive.reasons[0].text)}  [dim]({found.drive.reasons[0].code})[/dim]")
    if found.why_nothing:
        console.print(f"  of some runs nothing was learnt: {escape(found.why_nothing)}")
    if found.first is not None and found.shortest is not None:
        _show_failing(console, found, found.first, found.shortest)
    _show_coverage(console, found.coverage)
    folder = escape(str(found.folder))
    console.print(
        f"\n{found.runs} runs of the search, {found.per_minute:.0f} a minute; folder {folder}", soft_wrap=True
    )
    if found.shortest is not None:
        _show_replay(console, found, found.shortest)


def _headline(found: Explored) -> str:
    said = {"failed": "broken", "survived": "not broken", "void": "nothing learnt", "unknown": "unknown"}
    return f"{said[str(found.verdict)]}{' (interrupted)' if found.interrupted else ''}"


def _show_failing(console: Screen, found: Explored, first: Failing, shortest: Failing) -> None:
    from rich.markup import escape

    for reason in shortest.result.reasons[:3]:
        console.print(f"  {escape(reason.text)}  [dim]({reason.code})[/dim]")
    console.print(f"  found with  {escape(_case(first))}")
    console.print(f"  shrunk to   {escape(_case(shortest))}  [dim]({len(found.steps)} runs)[/dim]")


def _show_replay(console: Screen, found: Explored, shortest: Failing) -> None:
    """The last lines: what one wants to copy."""
    from rich.markup import escape

    if found.replay is not None and found.replay.difference is not None:
        console.print(f"[red bold]DIFFERENT when repeated[/red bold]: {escape(found.replay.difference.text)}")
    repeated = {"identical": "repeated once, identical", "different": "see above", "not tried": "not repeated"}
    console.print(f"replay it with  [dim]({repeated[str(found.replayed)]})[/dim]")
    console.print(f"  {escape(shortest.replay_command)}", soft_wrap=True)


def _case(one: Failing) -> str:
    case = one.case
    said = [_called(case.seed, one.values, case.at)]
    said.append(f"faults: {', '.join(case.faults) or 'none'}")
    if case.loads:
        said.append(f"loads: {', '.join(case.loads)}")
    if case.undone:
        said.append(f"only up to the undo: {', '.join(case.undone)}")
    if case.brief:
        said.append(f"only up to the act: {', '.join(case.brief)}")
    if case.length < 1:
        said.append(f"{case.length:.0%} of settle and hold")
    if one.noise is not None:
        said.append("disturbances {} to {}".format(*one.noise))
    return f"{'; '.join(said)}; {one.guest_seconds:.2f} s of the guest"


def _show_coverage(console: Screen, found: Coverage) -> None:
    from rich.markup import escape
    from rich.table import Table

    said = ", ".join(f"{count} {verdict}" for verdict, count in found.counts.items() if count) or "none"
    console.print(f"\n[bold]what was tried[/bold]  runs: {said}; {found.seeds} seeds")
    if found.dimensions:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("dimension", "over", "tried", "broken"):
            table.add_column(heading)
        for share in (*found.dimensions, *found.pairs):
            table.add_row(escape(share.name), escape(share.over), f"{share.met} of {share.parts}", str(share.failed))
        console.print(table)
    if found.bound is not None:
        console.print(
            f"None broke. With 95 % confidence fewer than {found.bound * 100:.2g} % of cases drawn like these would; "
            "what was not tried is not known."
        )
