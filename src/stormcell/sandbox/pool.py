"""Pools: sandboxes and processes of one template that are made before anybody asks for them.

Nothing in a pool outlives its owner. Closing it removes what waits; when the owner is killed, the reaper does within
seconds, and gc at once. What was handed out is the taker's, as any sandbox.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Self

from stormcell.sandbox import admission, reaper
from stormcell.sandbox.asandbox import AsyncSandbox
from stormcell.sandbox.link import to_the_end
from stormcell.sandbox.making import Made, Mark, Wishes, go_on
from stormcell.sandbox.origin import Origin
from stormcell.sandbox.templates import OnProgress, resolve_to_keep
from stormcell.sandbox.waiting import RENEW_S, Bare, Shelf, Whole
from stormcell.spec.errors import (
    HostError,
    MachineDied,
    SandboxError,
    SandboxNotFound,
    SpecError,
    StormcellError,
    TemplateError,
)
from stormcell.spec.home import Home, private_folder
from stormcell.template.model import Template

BARE_BYTES = 40 << 20
"""Private memory of a process that waits with nothing loaded; measured at 20 to 30 MiB."""
REST_S = 0.25
"""After something was taken: whoever took it has work in hand."""
PATIENCE_S = 2.0
"""For a processor that idles. A host that is busy for longer gets its machines nevertheless, one at a time."""
LOOK_S = 0.05
AGAIN_S = 5.0
"""After there was no room, or a making failed."""
MOST = 64


class AsyncPool:
    """Sandboxes of one template, ready ahead, for one event loop of one process.

    `size` sandboxes wait whole, restored and paused: `create` takes one in some 10 ms. `processes` wait for the
    children of forks: `fork` in the same event loop takes them by itself when the forked sandbox has this template.
    `memory` (bytes) bounds what all that waits may use by estimate: a quarter of the guest's memory, at least 96 MiB,
    for a whole one, and 40 MiB for a process. More than the host has room for is never kept: one more ordinary sandbox
    always fits. What was taken is made again in the background, one at a time, when a processor idles.

    As a context manager it is closed at the end of the block, and what still waits is removed.
    """

    def __init__(
        self,
        template: str | Template = "base",
        *,
        size: int = 4,
        processes: int = 0,
        memory: int | None = None,
        progress: OnProgress | None = None,
    ) -> None:
        for what, number in (("size", size), ("processes", processes)):
            if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number <= MOST:
                raise SpecError(f"{what} of a pool is {number!r}", rule=f"a whole number from 0 to {MOST}")
        if memory is not None and (isinstance(memory, bool) or not isinstance(memory, int) or memory < 0):
            raise SpecError(f"memory of a pool is {memory!r}", rule="a whole number of bytes, or None")
        self.short = ""
        """Why fewer wait than asked for: no room on the host, or what a making failed of. Empty when all is well."""
        self._named, self._size, self._processes, self._memory = template, size, processes, memory
        self._progress = progress
        self._shelf: Shelf | None = None
        self._still_meant: Callable[[], bool] = lambda: True
        self._owner = 0
        self._in_hand = self._awaited = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._wanted = asyncio.Event()
        self._full = asyncio.Event()

    # -- life -----------------------------------------------------------------------------------------------------

    async def open(self) -> Self:
        """Find or build the template, and begin to make what shall wait; `filled` waits for it.

        Raises as AsyncSandbox.create does.
        """
        if self._shelf is not None:
            raise SandboxError("the pool was opened before", rule="a pool is opened once", remedy="make another one")
        template, self._still_meant = await resolve_to_keep(self._named, self._progress)
        home = Home.current()
        private_folder(home.sandboxes)
        self._owner = os.getpid()
        self._shelf = Shelf(template, home, self._lacking)
        self._shelf.open()
        self._lacking()
        self._tasks = [asyncio.create_task(self._refilling()), asyncio.create_task(self._renewing())]
        return self

    async def close(self) -> None:
        """Remove what waits; returns when it is gone. Harmless when repeated, and in a forked copy of this process."""
        if self._shelf is None or os.getpid() != self._owner:
            return
        self._mine()
        self._shelf.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        await _all_gone(self._shelf.empty())

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await to_the_end(self.close())

    async def filled(self, timeout: float = 120.0) -> bool:
        """Wait until all wait that are wanted and have room; False at the deadline (seconds)."""
        self._mine()
        self._awaited += 1
        try:
            async with asyncio.timeout(timeout):
                await self._full.wait()
        except TimeoutError:
            return False
        finally:
            self._awaited -= 1
        return True

    @property
    def waiting(self) -> tuple[int, int]:
        """How many wait now: whole sandboxes, and processes."""
        return (len(self._shelf.whole), len(self._shelf.bare)) if self._shelf else (0, 0)

    def _mine(self) -> Shelf:
        """Raises SandboxError for anybody but the owner."""
        shelf = self._shelf
        if shelf is None:
            raise SandboxError("the pool is not open", remedy="use `async with`, or await its `open` first")
        if os.getpid() != self._owner:
            raise SandboxError(
                f"the pool belongs to process {self._owner}, and this is {os.getpid()}",
                rule="a pool serves the process that opened it; a fork or a worker needs one of its own",
            )
        if not shelf.here:
            raise SandboxError(
                "the pool belongs to another event loop", rule="a pool serves the event loop that opened it"
            )
        return shelf

    # -- taking ---------------------------------------------------------------------------------------------------

    async def create(
        self,
        *,
        ttl_seconds: float = 300,
        metadata: Mapping[str, str] | None = None,
        open_ports: Mapping[str, int] | None = None,
        raw: bool = False,
        detached: bool = False,
        mark: Mark = lambda _: None,
    ) -> AsyncSandbox:
        """As AsyncSandbox.create, with what waits; when nothing does, an ordinary restore. Raises as that does."""
        shelf = self._open()
        wishes = Wishes.checked(ttl_seconds, metadata, open_ports, raw, detached)
        self._in_hand += 1
        try:
            if not self._still_meant():
                await self._renew_template(shelf)
            while not raw and (whole := shelf.take_whole()):
                mark("taken")
                if made := await _handed_out(whole, whole.taken(wishes, mark)):
                    return AsyncSandbox.of(made)
            while bare := shelf.take_bare():
                mark("process")
                origin = Origin.of_template(shelf.template)
                if made := await _handed_out(bare, _restored(bare, origin, wishes, mark)):
                    return AsyncSandbox.of(made)
            return await AsyncSandbox.create(
                shelf.template,
                ttl_seconds=ttl_seconds,
                metadata=metadata,
                open_ports=open_ports,
                raw=raw,
                detached=detached,
                mark=mark,
            )
        finally:
            self._in_hand -= 1

    def _open(self) -> Shelf:
        shelf = self._mine()
        if not self._tasks or self._tasks[0].done():
            raise SandboxError("the pool is closed", remedy="make another one")
        return shelf

    def _lacking(self) -> None:
        self._full.clear()
        self._wanted.set()

    # -- keeping --------------------------------------------------------------------------------------------------

    async def _renew_template(self, shelf: Shelf) -> None:
        """Another one has its name, or its files are gone: what waits is of no use."""
        stale = shelf.empty()
        try:
            shelf.template, self._still_meant = await resolve_to_keep(self._named, self._progress)
            self._lacking()
        finally:
            await to_the_end(_all_gone(stale))

    async def _renewing(self) -> None:
        shelf = self._mine()
        while True:
            await asyncio.sleep(RENEW_S)
            lost = shelf.renew()
            if shelf.whole or shelf.bare:
                if not self._still_meant():
                    lost += shelf.empty()
                elif not _room_for(shelf, 0):
                    # the host needs it for what is in use
                    lost.append(shelf.whole.pop() if shelf.whole else shelf.bare.pop())
                    self.short = "the host is short of memory"
            if lost:
                self._lacking()
                await to_the_end(_all_gone(lost))

    async def _refilling(self) -> None:
        """The one who makes. When the event loop ends without `close`, what waits goes here."""
        shelf = self._mine()
        try:
            while True:
                await self._wanted.wait()
                self._wanted.clear()
                while make := self._next(shelf):
                    await self._quiet(shelf)
                    if not await self._one_more(shelf, make):
                        break
                if not self._wanted.is_set():
                    self._full.set()
                if self.short:
                    asyncio.get_running_loop().call_later(AGAIN_S, self._wanted.set)
        finally:
            await to_the_end(_all_gone(shelf.empty()))

    def _next(self, shelf: Shelf) -> Callable[[Template, Home], Awaitable[Whole | Bare]] | None:
        """What is wanted most, within the memory that the pool may use."""
        one = admission.memory_of_one(shelf.template.shape.memory_mib << 20)
        used = len(shelf.whole) * one + len(shelf.bare) * BARE_BYTES
        left = float("inf") if self._memory is None else self._memory - used
        if len(shelf.whole) < self._size and one <= left:
            return Whole.made
        if len(shelf.bare) < self._processes and left >= BARE_BYTES:
            return Bare.made
        return None

    async def _one_more(self, shelf: Shelf, make: Callable[[Template, Home], Awaitable[Whole | Bare]]) -> bool:
        template = shelf.template
        try:
            if not self._still_meant():
                raise TemplateError("the template was removed or built anew; the next create takes the new one")
            admission.admit_here(template.shape.memory_mib << 20, shelf.home.sandboxes, 2)
            await asyncio.to_thread(reaper.ensure, shelf.home.state)
            made = await make(template, shelf.home)
        except (StormcellError, OSError) as error:
            self.short = str(error)
            return False
        self.short = ""
        if template != shelf.template:
            await to_the_end(made.thrown_away())
        elif isinstance(made, Whole):
            shelf.whole.append(made)
        else:
            shelf.bare.append(made)
        return True

    async def _quiet(self, shelf: Shelf) -> None:
        """A moment in which the making takes the processor from nobody, or the end of patience.

        Before anything was taken, or while somebody waits for it, the making is the work in hand.
        """
        deadline = time.monotonic() + PATIENCE_S
        while shelf.taken_at and not self._awaited and time.monotonic() < deadline:
            resting = time.monotonic() - shelf.taken_at < REST_S
            if not self._in_hand and not resting and processor_idles():
                return
            await asyncio.sleep(LOOK_S)


async def _handed_out(waiting: Whole | Bare, taking: Awaitable[Made]) -> Made | None:
    """None when it died or was removed while it waited; then, and when the taking fails, it is gone."""
    try:
        return await taking
    except (SandboxNotFound, MachineDied):
        await to_the_end(waiting.thrown_away())
        return None
    except BaseException:
        await to_the_end(waiting.thrown_away())
        raise


async def _restored(bare: Bare, origin: Origin, wishes: Wishes, mark: Mark) -> Made:
    await bare.taken(wishes)
    return await go_on(bare.machine, bare.folder, origin, wishes, mark)


async def _all_gone(waiting: list[Whole | Bare]) -> None:
    """One that does not go keeps none of the others; gc finds it."""
    await asyncio.gather(*(each.thrown_away() for each in waiting), return_exceptions=True)


def _room_for(shelf: Shelf, count: int) -> bool:
    try:
        admission.admit_here(shelf.template.shape.memory_mib << 20, shelf.home.sandboxes, count)
    except HostError:
        return False
    return True


def processor_idles() -> bool:
    """Whether fewer tasks of the host are ready to run, this one among them, than there are processors."""
    with Path("/proc/stat").open("rb") as file:
        for line in file:
            if line.startswith(b"procs_running"):
                return int(line.split()[1]) <= (os.cpu_count() or 1)
    return True
