"""One sealed machine is driven to its instant and saved there; runs without end go on from it, also side by side.

    async with Instant.driven(loaded, template, home, seed=0) as instant:
        if instant.there:
            events = await instant.carry_out(plan, folder, on_event, seed=7)

The plans are those of a branch (engine/branches/plans.py), and the seed is a run's own: it drives what the kernel and
the runner draw from the instant on. The drive has a seed, too, that of the experiment.
"""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stormcell.engine.conductor import OnEvent
from stormcell.engine.folder import RunFolder
from stormcell.engine.sealed.conduct import HandOver, SealedConductor, Start, Until
from stormcell.engine.sealed.log import SealedLog
from stormcell.machine.held import held
from stormcell.machine.sealed import memory
from stormcell.spec.errors import StormcellError
from stormcell.spec.home import Home, private_folder
from stormcell.spec.plan import Plan
from stormcell.template.sealed import SealedTemplate


def _ignore(_: object) -> None:
    """Nobody watches."""


class Instant:
    """Use as a context manager: its files are removed at the end. `there`: the drive came to it."""

    def __init__(
        self,
        plan: Plan,
        template: SealedTemplate,
        folder: RunFolder,
        *,
        home: Home | None = None,
        seed: int = 0,
        until: Until | None = None,
        on_event: OnEvent = _ignore,
        start: Start | None = None,
    ) -> None:
        """`plan` ends with the fork that is awaited, unless the machine is to be saved at `until`. `folder` gets the
        events of the drive, which begins at `start`, if not at the template."""
        self.there = False
        self.log = SealedLog(folder, on_event)
        self.folder = folder
        self.template = template
        self._plan = plan
        self._seed = seed
        self._until = until
        self._from = start or Start(template.spec("sealed"), template.state)
        self._spec = self._from.spec
        self._root = private_folder((home or Home.current()).instants)
        self._place: Path | None = None
        self._held = ExitStack()
        self.guest_seconds = 0.0
        self.moment = 0.0
        """In the run's time (s), as in its events."""
        self.told = 0
        """How many events came until then."""

    async def __aenter__(self) -> Self:
        """Raises what the host lacked; another failure of the drive is an event of its log."""
        self._place = self._held.enter_context(held(self._root, "i-", self.template.digest))
        try:
            await self._drive(self._place)
        except BaseException:
            await self._remove()
            raise
        return self

    async def _drive(self, place: Path) -> None:
        await asyncio.to_thread(memory.copy, self._from.spec.memory, place / "memory")
        spec = replace(self._from.spec, name="instant", memory=place / "memory", share=True)
        start = replace(self._from, spec=spec)
        conductor = SealedConductor(self._plan, start, place / "m", self.log, seed=self._seed, until=self._until)
        try:
            await conductor.carry_out()
            machine = conductor.machine
            if machine is not None and (conductor.at_fork or (self._until and self._until.reached)):
                self.moment, self.told = conductor.moment, len(self.log.events)
                await machine.stop()
                await machine.save(place / "state")
                self._spec = conductor.spec
                self.there = True
        except StormcellError as error:
            if conductor.refused:
                raise
            self.log.host("lost", code="host_error", text=str(error))
        finally:
            self.guest_seconds = conductor.guest_seconds
            await conductor.release()
            self.folder.close()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._remove()

    async def _remove(self) -> None:
        place, self._place = self._place, None
        if place is not None:
            await asyncio.to_thread(self._held.close)

    def digest(self) -> str:
        """sha256 (hex) of the machine's memory there, its disk included."""
        assert self.there and self._place is not None
        return memory.digest(self._place / "memory")

    def start(self, *, hand_over: HandOver | None = None, **changes: Any) -> Start:
        """Where a run goes on: the machine of the instant, copy-on-write. `hand_over`: see Start."""
        assert self.there and self._place is not None
        spec = replace(self._spec, name="sealed", share=False, **changes)
        return Start(spec, self._place / "state", under_way=True, hand_over=hand_over)

    async def carry_out(self, plan: Plan, folder: RunFolder, on_event: OnEvent, *, seed: int) -> SealedConductor:
        """Carry out `plan` in a machine of its own that goes on from the instant. Its log has the events.

        The machine is gone when this returns or raises. Raises what the host lacked for it.
        """
        with held(self._root, "m-") as place:
            conductor = SealedConductor(plan, self.start(), place, SealedLog(folder, on_event), seed=seed)
            try:
                await conductor.perform()
            finally:
                folder.close()
            return conductor
