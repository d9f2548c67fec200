"""What is done at one moment of a sealed run: a look, a shell, a command, another fault, a snapshot."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stormcell.cli.output import emit_json, safe, say

if TYPE_CHECKING:
    from stormcell.cli.travel import Travel
    from stormcell.engine.load import Loaded
    from stormcell.engine.sealed.conduct import HandOver
    from stormcell.engine.sealed.stopped import Stopped


@dataclass
class Visit:
    """One of them. `runs` and `seed` are those of another run from there."""

    asked: Travel
    replayed: Path | None
    runs: Path | None
    seed: int | None
    as_json: bool

    @property
    def _hand_over(self) -> HandOver:
        return "keep" if self.asked.keep_fault else "undo"

    async def perform(self) -> int:
        """The exit code, see Travel.run. Raises StormcellError."""
        async with contextlib.AsyncExitStack() as held:
            if self.asked.kept is not None:
                stopped = await asyncio.to_thread(_opened, self.asked.kept)
                other = self._other(stopped.folder)
            else:
                assert self.replayed is not None
                other = self._other(self.replayed)
                self._check_name()
                stopped = await held.enter_async_context(self._replayed(self.replayed))
            if stopped.difference is not None:
                return self._another_run(stopped)
            if self.asked.kept is None:
                self._tell(f"identical up to there: {stopped.event + 1} events, byte for byte")
            self._tell(stopped.text)
            return await self._there(stopped, other)

    @contextlib.asynccontextmanager
    async def _replayed(self, folder: Path) -> AsyncIterator[Stopped]:
        from stormcell.cli.progress import Watcher
        from stormcell.engine.sealed.places import parse_place
        from stormcell.engine.sealed.stopped import stopped_at

        place = self.asked.stop_at or ""
        async with contextlib.AsyncExitStack() as held:
            with Watcher(total=1) as watcher:
                line = watcher.begin(1, f"replay of {folder.name} up to {place}")
                try:
                    way = stopped_at(folder, parse_place(place), on_event=line.event, on_build=watcher.build)
                    stopped = await held.enter_async_context(way)
                finally:
                    line.close()
            yield stopped

    def _check_name(self) -> None:
        from stormcell.sandbox.snapshots import being_made
        from stormcell.spec.home import Home

        if self.asked.snapshot is not None:
            with being_made(Home.current(), self.asked.snapshot):
                pass

    async def _there(self, stopped: Stopped, other: Loaded | None) -> int:
        if self.asked.shell:
            return await _shell(stopped)
        if self.asked.command is not None:
            return await self._command(stopped, self.asked.command)
        if other is not None:
            return await self._go_on(stopped, other)
        if self.asked.snapshot is not None:
            return await self._keep(stopped, self.asked.snapshot)
        digest = await asyncio.to_thread(stopped.digest)
        if self.as_json:
            emit_json({**stopped.as_dict(), "memory_sha256": digest})
        else:
            self._tell(f"the machine's memory there: sha256 {digest}")
        return 0

    def _tell(self, text: str) -> None:
        """On standard output, unless that is another's."""
        if self.as_json or self.asked.shell or self.asked.command is not None:
            say(text)
        else:
            click.echo(safe(text))

    def _another_run(self, stopped: Stopped) -> int:
        assert stopped.difference is not None
        if self.as_json:
            emit_json(stopped.as_dict())
        self._tell(f"DIFFERENT: {stopped.difference.text}; nothing was done there, since it is another run")
        return 1

    async def _command(self, stopped: Stopped, text: str) -> int:
        from stormcell.cli.passthrough import passed
        from stormcell.engine.sealed.live import live
        from stormcell.guest.exec import LONGEST
        from stormcell.machine.commands import start_command
        from stormcell.sandbox.running import AsyncCommand

        async with live(stopped.start(clock="real")) as channel:
            started = await start_command(channel, None, text, cwd="/root", timeout=LONGEST)
            command = AsyncCommand(started, contextlib.AsyncExitStack())
            if not self.as_json:
                return await passed(command, stdin=False)
            out, err = await asyncio.gather(_all(command.stdout()), _all(command.stderr()))
            ended = await command.wait()
        code = 128 + (ended.signal or 0) if ended.exit_code is None else ended.exit_code
        emit_json({**stopped.as_dict(), "command": {"exit_code": code, "stdout": out, "stderr": err}})
        return code

    def _other(self, folder: Path) -> Loaded | None:
        """The experiment that goes on from there, if one was asked for. Raises SpecError."""
        from stormcell.engine.sealed.another import document_of, experiment_of, not_used
        from stormcell.spec import yamlfile

        file, fault = self.asked.with_file, self.asked.fault
        if file is None and fault is None:
            return None
        given = yamlfile.load(file, "file") if file is not None else document_of(fault or "")
        loaded = experiment_of(folder, given, self._hand_over)
        if past := not_used(given):
            say(f"{file}: not used, since that is settled at this moment: {', '.join(past)}")
        return loaded

    async def _go_on(self, stopped: Stopped, loaded: Loaded) -> int:
        from stormcell.cli.progress import Watcher
        from stormcell.cli.results import show_results
        from stormcell.engine.sealed.another import go_on
        from stormcell.spec.verdict import EXIT_CODE

        with Watcher(total=1) as watcher:
            line = watcher.begin(1, f"{loaded.experiment.name} from there")
            try:
                outcome = await go_on(
                    stopped, loaded, hand_over=self._hand_over, seed=self.seed, runs=self.runs, on_event=line.event
                )
            except BaseException:
                line.close()
                raise
            line.done(outcome)
        if self.as_json:
            emit_json({**stopped.as_dict(), "outcome": outcome.as_dict()})
        else:
            show_results([outcome])
        return EXIT_CODE[outcome.verdict]

    async def _keep(self, stopped: Stopped, name: str) -> int:
        from stormcell.engine.sealed.kept import save
        from stormcell.spec.units import size_text

        kept = await save(stopped, name)
        if self.as_json:
            emit_json({**stopped.as_dict(), "snapshot": kept.as_dict()})
        else:
            self._tell(f"kept as {name} ({size_text(kept.size >> 20 << 20)}); `stormcell run --from {name} --shell`")
        return 0


def _opened(name: str) -> Stopped:
    from stormcell.engine.sealed.kept import opened
    from stormcell.spec.home import Home

    return opened(Home.current(), name)


async def _shell(stopped: Stopped) -> int:
    from stormcell.cli.terminal import shell
    from stormcell.engine.sealed.live import live

    say(
        "a live copy of the machine: its runner is held, so that faults stay as they are; all else goes on in real"
        " time, and the recorded run is untouched"
    )
    say("exit or Ctrl-D ends it, Ctrl-] in any case; nothing is kept")
    async with live(stopped.start(clock="real")) as channel:
        return await shell(channel, f"{stopped.experiment}@{stopped.moment:.3f}s")


async def _all(pieces: AsyncIterator[bytes]) -> str:
    return b"".join([piece async for piece in pieces]).decode(errors="replace")
