"""The options of `stormcell run` for one moment of a sealed run: where it is, and what is done there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import click

from stormcell.cli.interrupt import ended_once
from stormcell.cli.output import say

OPTIONS = (
    click.option("--stop-at", metavar="PLACE", help="With --replay: stop at this time (12.5s) or event (event:31)."),
    click.option("--from", "kept", metavar="NAME", help="At the moment that --snapshot NAME has kept."),
    click.option("--shell", is_flag=True, help="There: a shell in a live copy of the machine."),
    click.option("--command", "-c", metavar="TEXT", help="There: run this, and end with its exit code."),
    click.option(
        "--with", "with_file", type=click.Path(path_type=Path), metavar="FILE",
        help="There: go on with the faults and probes of this file, as a sealed run of its own.",
    ),
    click.option("--fault", metavar="FAULT", help="The same for one: 'kind=net.loss,device=lo,loss=30%'."),
    click.option("--keep-fault", is_flag=True, help="With --with or --fault: what is in force there stays in force."),
    click.option("--snapshot", metavar="NAME", help="There: keep the machine under this name."),
)  # fmt: skip


@dataclass(frozen=True)
class Travel:
    """What of it was asked for."""

    stop_at: str | None = None
    kept: str | None = None
    shell: bool = False
    command: str | None = None
    with_file: Path | None = None
    fault: str | None = None
    keep_fault: bool = False
    snapshot: str | None = None

    @property
    def begun(self) -> bool:
        """Whether a moment was named."""
        return self.stop_at is not None or self.kept is not None

    @property
    def other(self) -> bool:
        """Whether another fault was asked for."""
        return self.with_file is not None or self.fault is not None

    def check(self, replayed: Path | None, as_json: bool) -> None:
        """Raises click.UsageError, SpecError: nothing was started."""
        from stormcell.engine.sealed.places import parse_place
        from stormcell.sandbox.snapshots import checked_name

        asked = {
            "--shell": self.shell,
            "--command TEXT": self.command is not None,
            "--with FILE": self.with_file is not None,
            "--fault FAULT": self.fault is not None,
            "--snapshot NAME": self.snapshot is not None,
        }
        given = [option for option, there in asked.items() if there]
        if self.keep_fault and not self.other:
            raise click.UsageError("--keep-fault goes with --with FILE or --fault FAULT")
        if not self.begun and given:
            raise click.UsageError(
                f"{given[0]} goes with --stop-at PLACE or --from NAME: at which moment that is to be"
            )
        if self.stop_at is not None and replayed is None:
            raise click.UsageError("--stop-at PLACE goes with --replay FOLDER: the run that is to be stopped")
        if self.kept is not None and replayed is not None:
            raise click.UsageError("--from NAME stands without --replay: the snapshot says which run it is of")
        if self.kept is not None and self.snapshot is not None:
            raise click.UsageError("--from NAME or --snapshot NAME, not both: it is kept already")
        if len(given) > 1:
            raise click.UsageError(f"{given[0]} or {given[1]}, not both")
        if self.stop_at is not None:
            parse_place(self.stop_at)
        for name in (self.kept, self.snapshot):
            if name is not None:
                checked_name(name)
        if self.shell:
            _check_terminal(as_json)

    def run(self, replayed: Path | None, *, runs: Path | None, seed: int | None, as_json: bool) -> int:
        """Exit code 0 when it came there as recorded, that of a command, shell or verdict, 1 for another run, 4
        interrupted. `seed` and `runs` are those of another run from there."""
        from stormcell.cli.moment import Visit

        try:
            return ended_once(Visit(self, replayed, runs, seed, as_json).perform())
        except KeyboardInterrupt:
            say("interrupted; what had been started was released")
            return 4


def travel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a Travel, which `command` gets as `travel`."""

    @functools.wraps(command)
    def gathered(**asked: Any) -> Any:
        own = {field.name: asked.pop(field.name) for field in fields(Travel)}
        return command(**asked, travel=Travel(**own))

    for option in reversed(OPTIONS):
        gathered = option(gathered)
    return gathered


def _check_terminal(as_json: bool) -> None:
    from stormcell.cli.terminal import is_terminal

    if as_json:
        raise click.UsageError("--shell is for people; --command TEXT goes with --json")
    if not is_terminal():
        raise click.UsageError("--shell needs a terminal; --command TEXT runs one command without")
