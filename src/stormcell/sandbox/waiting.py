"""Machines that wait: made ahead of need, kept by the lease of their owner, and taken by whoever asks first.

Two kinds. A whole one is a restored sandbox that acknowledged `resumed` under its own name and was paused then: paused,
since a guest that idles costs the host about half a percent of a processor and drifts away from the template, while
letting it go on and stepping its clock takes 3 to 5 ms. A bare one is a QEMU process with the template's memory mapped,
for a fork's child or a restore.

On the host's disk each is a sandbox whose record says `waiting`. It becomes its taker's with the record that is written
at the end of the taking; before that, whatever is left of it belongs to a dead process, and the reaper and gc take it.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

from stormcell.machine.channel import Channel
from stormcell.machine.disk import writing
from stormcell.machine.machine import Machine
from stormcell.sandbox import layers, lease
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.making import MAKING_S, Made, Mark, Wishes, begin, start_ahead, undone_unless_made, wake
from stormcell.sandbox.origin import Origin
from stormcell.sandbox.record import Record
from stormcell.sandbox.removal import remove
from stormcell.spec.errors import SandboxNotFound, StormcellError
from stormcell.spec.home import Home
from stormcell.template.model import Template

LEASE_S = 30.0
RENEW_S = 5.0
CLOCK_S = 30.0
NOBODY = Wishes(LEASE_S, {}, {}, raw=False, detached=False)


@dataclass(frozen=True)
class Bare:
    """A QEMU process that waits for what it goes on from."""

    folder: Path
    record: Record
    machine: Machine

    @classmethod
    async def made(cls, template: Template, home: Home) -> Bare:
        """Start one. A failure leaves nothing. Raises as Machine.ahead does."""
        folder = begin(template, NOBODY, home, memory=layers.TEMPLATE, state="waiting")
        async with undone_unless_made(folder) as started:
            started.append(await start_ahead(template, folder, home, layers.TEMPLATE, NOBODY))
            return cls(folder, _waits(folder, started[0]), started[0])

    async def taken(self, wishes: Wishes, over: tuple[str, ...] = (), parent: str = "") -> None:
        """Its record is that of a sandbox being made from here on, and its ports are open.

        Raises SandboxNotFound when a remover was first, MachineError, MachineDied.
        """
        lease.renew(self.folder, max(wishes.ttl_seconds, MAKING_S))
        record = _asked_for(self.record, wishes, state="creating", layers=over, parent=parent)
        with writing("the sandbox's record cannot be written", self.folder):
            record.write(self.folder)
        await self.machine.forward(wishes.forwards)

    async def thrown_away(self) -> None:
        """Gone, with its files."""
        await _gone(self.folder, self.machine)


@dataclass(frozen=True)
class Whole:
    """A paused sandbox. Its guest knows its name, and that it is nobody else's copy."""

    folder: Path
    record: Record
    machine: Machine
    channel: Channel
    paused_ns: int

    @classmethod
    async def made(cls, template: Template, home: Home) -> Whole:
        """Restore one. A failure leaves nothing. Raises as a create does."""
        folder = begin(template, NOBODY, home, memory=layers.TEMPLATE, state="waiting")
        async with undone_unless_made(folder) as started:
            machine = await start_ahead(template, folder, home, layers.TEMPLATE, NOBODY)
            started.append(machine)
            channel, _ = await wake(machine, folder, Origin.of_template(template), raw=False)
            try:
                # once before it matters: the guest's way through this request is translated then
                await channel.clock(timeout=CLOCK_S)
                paused = await machine.pause()
                return cls(folder, _waits(folder, machine), machine, channel, paused)
            except BaseException:
                await channel.close()
                raise

    async def taken(self, wishes: Wishes, mark: Mark = lambda _: None) -> Made:
        """It is the asker's. Raises SandboxNotFound when a remover was first, MachineDied, SandboxError."""
        lease.renew(self.folder, wishes.ttl_seconds)
        went_on = await self.machine.cont()
        mark("went on")
        await self.channel.clock(advance_ns=went_on - self.paused_ns, timeout=CLOCK_S)
        mark("clock")
        await self.machine.forward(wishes.forwards)
        ports = await self.machine.ports()
        owner = None if wishes.detached else self.record.owner
        record = _asked_for(self.record, wishes, state="running", owner=owner, ports=ports)
        with writing("the sandbox's record cannot be written", self.folder):
            record.write(self.folder)
        mark("recorded")
        return Made(self.folder, record, self.machine, self.channel)

    async def thrown_away(self) -> None:
        """Gone, with its files."""
        await self.channel.close()
        await _gone(self.folder, self.machine)


def _waits(folder: Path, machine: Machine) -> Record:
    record = Record.read(folder)
    assert record is not None
    record = dataclasses.replace(record, machine=ProcessRef.of(machine.identity))
    record.write(folder)
    return record


def _asked_for(record: Record, wishes: Wishes, **changes: object) -> Record:
    return dataclasses.replace(
        record,
        ttl_seconds=wishes.ttl_seconds,
        metadata=wishes.metadata,
        open_ports=wishes.open_ports,
        raw=wishes.raw,
        created=time.time(),
        **changes,  # type: ignore[arg-type]  # fields of the record, given by name above
    )


async def _gone(folder: Path, machine: Machine) -> None:
    await machine.given_up()
    await asyncio.to_thread(remove, folder, "nobody asked for it")


T = TypeVar("T", Whole, Bare)


class Shelf:
    """What waits, of one template, in one event loop of one process. Whoever forks there finds it by `bare_for`."""

    _open: ClassVar[list[Shelf]] = []

    def __init__(self, template: Template, home: Home, changed: Callable[[], None]) -> None:
        self.template = template
        self.home = home
        self.whole: deque[Whole] = deque()
        self.bare: deque[Bare] = deque()
        self.taken_at = 0.0
        self._changed = changed
        self._place = (os.getpid(), asyncio.get_running_loop())

    def open(self) -> None:
        """Let forks find it."""
        self._open.append(self)

    def close(self) -> None:
        """Nobody finds it any more. Harmless when repeated."""
        if self in self._open:
            self._open.remove(self)

    @property
    def here(self) -> bool:
        """Whether this is the process and the event loop that it belongs to."""
        return self._place == (os.getpid(), asyncio.get_running_loop())

    def take_whole(self) -> Whole | None:
        """The one that waits longest, now the caller's to use or throw away."""
        return self._taken(self.whole)

    def take_bare(self) -> Bare | None:
        """The same of processes."""
        return self._taken(self.bare)

    def _taken(self, row: deque[T]) -> T | None:
        if not row:
            return None
        self.taken_at = time.monotonic()
        self._changed()
        return row.popleft()

    @classmethod
    def bare_for(cls, template: Template, home: Home) -> Bare | None:
        """A process that waits in this event loop with the memory of `template`."""
        for shelf in cls._open:
            fits = shelf.here and shelf.home == home and shelf.template.digest == template.digest
            if fits and (bare := shelf.take_bare()):
                return bare
        return None

    def renew(self) -> list[Whole | Bare]:
        """Renew every lease. Takes out and returns those that ended or were removed meanwhile."""
        lost: list[Whole | Bare] = [*_renewed(self.whole)]
        return [*lost, *_renewed(self.bare)]

    def empty(self) -> list[Whole | Bare]:
        """Take all out."""
        everything: list[Whole | Bare] = [*self.whole, *self.bare]
        self.whole.clear()
        self.bare.clear()
        return everything


def _renewed(row: deque[T]) -> list[T]:
    lost: list[T] = []
    for each in list(row):
        try:
            lease.renew(each.folder, LEASE_S)
            if each.machine.ended:
                raise SandboxNotFound("its machine ended", where=each.folder.name)
        except (StormcellError, OSError):
            row.remove(each)
            lost.append(each)
    return lost
