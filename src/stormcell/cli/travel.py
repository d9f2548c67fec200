"""`stormcell run --replay FOLDER --stop-at PLACE`: a sealed run up to one place in it, and what is done there."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stormcell.cli.output import emit_json, safe, say

if TYPE_CHECKING:
    from stormcell.engine.sealed.stopped import Stopped

OPTIONS = (
    click.option("--stop-at", metavar="PLACE", help="With --replay: stop at this time (12.5s) or event (event:31)."),
    click.option("--shell", is_flag=True, help="With --stop-at: a shell in a live copy of the machine there."),
    click.option("--command", "-c", metavar="TEXT", help="With --stop-at: run this there, and end with its exit code."),
)


@dataclass(frozen=True)
class Travel:
    """What of it was asked for."""

    stop_at: str | None = None
    shell: bool = False
    command: str | None = None

    def check(self, replayed: Path | None) -> None:
        """Raises click.UsageError, SpecError."""
        from stormcell.engine.sealed.places import parse_place

        asked = self.shell or self.command is not None
        if self.stop_at is None and asked:
            raise click.UsageError(
                "--shell and --command go with --stop-at PLACE: where the machine is to be looked at"
            )
        if self.stop_at is not None and replayed is None:
            raise click.UsageError("--stop-at goes with --replay FOLDER: the run that is to be stopped")
        if self.shell and self.command is not None:
            raise click.UsageError("--shell or --command TEXT, not both")
        if self.stop_at is not None:
            parse_place(self.stop_at)
        if self.shell:
            _check_terminal()

    def run(self, folder: Path, as_json: bool) -> int:
        """Exit code 0 when it came there as recorded, that of a command or shell, 1 for another run, 4 interrupted."""
        if as_json and self.shell:
            raise click.UsageError("--shell is for people; --command TEXT goes with --json")
        try:
            return asyncio.run(self._run(folder, as_json))
        except KeyboardInterrupt:
            say("interrupted; what had been started was released")
            return 4

    async def _run(self, folder: Path, as_json: bool) -> int:
        from stormcell.cli.progress import Watcher
        from stormcell.engine.sealed.places import parse_place
        from stormcell.engine.sealed.stopped import stopped_at

        assert self.stop_at is not None
        async with contextlib.AsyncExitStack() as held:
            with Watcher(total=1) as watcher:
                line = watcher.begin(1, f"replay of {folder.name} up to {self.stop_at}")
                try:
                    way = stopped_at(folder, parse_place(self.stop_at), on_event=line.event, on_build=watcher.build)
                    stopped = await held.enter_async_context(way)
                finally:
                    line.close()
            if stopped.difference is not None:
                return _other_run(stopped, as_json)
            tell = say if self.shell or self.command is not None else _print
            tell(f"identical up to there: {stopped.event + 1} events, byte for byte")
            tell(stopped.text)
            return await self._there(stopped, as_json)

    async def _there(self, stopped: Stopped, as_json: bool) -> int:
        if self.shell:
            return await _shell(stopped)
        if self.command is not None:
            return await _command(stopped, self.command, as_json)
        digest = await asyncio.to_thread(stopped.instant.digest)
        if as_json:
            emit_json({**stopped.as_dict(), "memory_sha256": digest})
        else:
            _print(f"the machine's memory there: sha256 {digest}")
        return 0


def travel_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a Travel, which `command` gets as `travel`."""

    @functools.wraps(command)
    def gathered(**asked: Any) -> Any:
        own = {field.name: asked.pop(field.name) for field in fields(Travel)}
        return command(**asked, travel=Travel(**own))

    for option in reversed(OPTIONS):
        gathered = option(gathered)
    return gathered


def _check_terminal() -> None:
    from stormcell.cli.terminal import is_terminal

    if not is_terminal():
        raise click.UsageError("--shell needs a terminal; --command TEXT runs one command without")


def _print(text: str) -> None:
    click.echo(safe(text))


def _other_run(stopped: Stopped, as_json: bool) -> int:
    assert stopped.difference is not None
    if as_json:
        emit_json(stopped.as_dict())
    else:
        _print(f"DIFFERENT: {stopped.difference.text}; nothing was done there, since it is another run")
    return 1


async def _shell(stopped: Stopped) -> int:
    from stormcell.cli.terminal import shell
    from stormcell.engine.sealed.live import live

    say(
        "a live copy of the machine: its runner is held, so that faults stay as they are; all else goes on in real"
        " time, and the recorded run is untouched"
    )
    say("exit or Ctrl-D ends it, Ctrl-] in any case; nothing is kept")
    async with live(stopped.instant) as channel:
        return await shell(channel, f"{stopped.experiment}@{stopped.moment:.3f}s")


async def _command(stopped: Stopped, text: str, as_json: bool) -> int:
    from stormcell.cli.passthrough import passed
    from stormcell.engine.sealed.live import live
    from stormcell.guest.exec import LONGEST
    from stormcell.machine.commands import start_command
    from stormcell.sandbox.running import AsyncCommand

    async with live(stopped.instant) as channel:
        started = await start_command(channel, None, text, cwd="/root", timeout=LONGEST)
        command = AsyncCommand(started, contextlib.AsyncExitStack())
        if not as_json:
            return await passed(command, stdin=False)
        out, err = await asyncio.gather(_all(command.stdout()), _all(command.stderr()))
        ended = await command.wait()
    code = 128 + (ended.signal or 0) if ended.exit_code is None else ended.exit_code
    emit_json({**stopped.as_dict(), "command": {"exit_code": code, "stdout": out, "stderr": err}})
    return code


async def _all(pieces: Any) -> str:
    return b"".join([piece async for piece in pieces]).decode(errors="replace")
