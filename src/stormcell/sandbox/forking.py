"""Fork: a running sandbox goes on, and so do copies of it, from the same instant.

The guest stands still while its device state and the pages that differ from its memory file are copied and its disk
overlay becomes read-only; it then goes on with an empty overlay on top. Each copy is a process that waited with the
same memory file mapped: it is given the pages, an overlay of its own over the same disk, and the device state.

At any moment a SIGKILL may end us. So the record names the new overlay before the machine has it: the overlay is
empty over another name of the old disk, and a cold boot finds the same bytes through either.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.capture import Capture
from stormcell.machine.disk import copy_overlay, writing
from stormcell.machine.durable import lock
from stormcell.machine.machine import Machine
from stormcell.sandbox import admission, flattening, layers, lease
from stormcell.sandbox.link import Link, to_the_end
from stormcell.sandbox.making import Made, Mark, Wishes, begin, go_on, start_ahead, undone_unless_made
from stormcell.sandbox.origin import Origin, freeze_disk, memory_file, next_disk
from stormcell.sandbox.record import Record
from stormcell.sandbox.waiting import Shelf
from stormcell.spec.errors import MachineDied, SandboxError, SandboxNotFound, SpecError, StormcellError
from stormcell.spec.home import Home
from stormcell.template.model import Template
from stormcell.template.store import Store

MOST = 64
"""Children of one fork."""
WAIT_S = 60.0
"""For another fork of the same sandbox."""
CLOCK_S = 10.0
STANDING = "standing"
"""A file in the sandbox's folder while its guest stands still to be captured."""


@dataclass(frozen=True)
class Frozen:
    """A moment of a sandbox, saved. `layer` is the folder that its disk and device state are in."""

    origin: Origin
    capture: Capture
    layer: Path
    record: Record
    """Of the sandbox itself, from here on."""


async def fork(link: Link, record: Record, count: int, wishes: Wishes, mark: Mark = lambda _: None) -> list[Made]:
    """`count` children, all or none. The parent has another record from here on, whether this succeeds or not.

    Raises SandboxError that says which of them failed and why; the parent goes on in any case, unless it ended itself.
    """
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MOST:
        raise SpecError(f"{count!r} is no number of children", rule=f"1 to {MOST}")
    home = Home.current()
    template = Store(home).open(record.template)
    async with link.activity.work(), layers.held(home.state), alone(link.folder), AsyncExitStack() as children:
        record = latest(record, link.folder)
        admission.admit_here(template.shape.memory_mib << 20, home.sandboxes, count)
        record = await _flat(link.machine, link.folder, record, template)
        memory = memory_file(record.memory, link.folder, template, home)
        base = record.memory
        with writing("the fork's folder cannot be made", layers.folder_of(home.state)):
            layer = layers.new_layer(home.state)
        size = template.shape.memory_mib << 20
        if flattening.pays(link.machine.identity, memory, size, count, home.sandboxes):
            flattening.reserve(layer, size)
            base = layer.name
        nursery = Nursery(template, wishes, home, base, (*record.layers, layer.name), record.id, count)
        waiting = asyncio.create_task(nursery.prepare(children))
        try:
            mark("admitted")
            frozen = await freeze(link.machine, link.folder, record, template, memory, layer)
            mark("frozen")
        except BaseException:
            waiting.cancel()
            await asyncio.wait({waiting})
            raise
        try:
            stepped = asyncio.create_task(step_clock(link, frozen.capture))
            origin = frozen.origin
            if base == layer.name:
                await asyncio.to_thread(flattening.fill, layer / layers.MEMORY, memory, frozen.capture.pages)
                origin = dataclasses.replace(origin, memory=base, pages=None, filled=True)
                mark("flattened")
            await waiting
            mark("waiting")
            made = await nursery.born(origin)
            mark("resumed")
            await stepped
        finally:
            frozen.capture.pages.close()
            (layer / "state").unlink(missing_ok=True)
    return made


class Nursery:
    """Children that are being made: their folders and waiting processes first, then all of them at once."""

    def __init__(
        self,
        template: Template,
        wishes: Wishes,
        home: Home,
        memory: str,
        over: tuple[str, ...],
        parent: str,
        count: int,
    ) -> None:
        self._template = template
        self._wishes = wishes
        self._home = home
        self._memory = memory
        self._layers = over
        self._parent = parent
        self._count = count
        self._waiting: list[tuple[Path, Machine]] = []

    async def prepare(self, stack: AsyncExitStack) -> None:
        """Start the processes; what `stack` still holds at its end goes."""
        for index in range(self._count):
            with self._naming(index):
                if not await self._taken(stack):
                    await self._started(stack)

    async def _started(self, stack: AsyncExitStack) -> None:
        folder = begin(
            self._template,
            self._wishes,
            self._home,
            memory=self._memory,
            layers=self._layers,
            parent=self._parent,
        )
        started = await stack.enter_async_context(undone_unless_made(folder))
        started.append(await start_ahead(self._template, folder, self._home, self._memory, self._wishes))
        self._waiting.append((folder, started[0]))

    async def _taken(self, stack: AsyncExitStack) -> bool:
        """A process that waits in a pool for this; one that died or was removed meanwhile is passed over."""
        while self._memory == layers.TEMPLATE and (bare := Shelf.bare_for(self._template, self._home)):
            started = await stack.enter_async_context(undone_unless_made(bare.folder))
            started.append(bare.machine)
            try:
                await bare.taken(self._wishes, self._layers, self._parent)
            except (SandboxNotFound, MachineDied):
                await bare.thrown_away()
                continue
            self._waiting.append((bare.folder, bare.machine))
            return True
        return False

    async def born(self, origin: Origin) -> list[Made]:
        """All go on from the same moment. The first failure ends the others' making and is raised with its number."""
        tasks = [
            asyncio.create_task(self._one(index, folder, machine, origin))
            for index, (folder, machine) in enumerate(self._waiting)
        ]
        try:
            made = list(await asyncio.gather(*tasks))
            for each in made:
                lease.renew(each.folder, self._wishes.ttl_seconds)
            return made
        except BaseException:
            for task in tasks:
                task.cancel()
            await to_the_end(asyncio.wait(tasks))
            for task in tasks:
                if not task.cancelled() and task.exception() is None:
                    await task.result().channel.close()
            raise

    async def _one(self, index: int, folder: Path, machine: Machine, origin: Origin) -> Made:
        with self._naming(index):
            return await go_on(machine, folder, origin, self._wishes)

    @contextlib.contextmanager
    def _naming(self, index: int) -> Iterator[None]:
        try:
            yield
        except StormcellError as error:
            raise SandboxError(
                f"child {index + 1} of {self._count} could not be made: {error.what}; none of them is left",
                where=error.where or self._parent,
                rule=error.rule,
                remedy=error.remedy,
                detail=error.detail,
            ) from error


async def freeze(
    machine: Machine, folder: Path, record: Record, template: Template, memory: Path, layer: Path
) -> Frozen:
    """Save this moment into `layer`, an empty folder; the sandbox goes on.

    Raises what the host, QEMU or its disk had to say; the sandbox then goes on as it did.
    """
    try:
        active = (await machine.disk_node())[1]
        seed = await asyncio.to_thread(freeze_disk, active, layer)
        overlay = folder / next_disk(record)
        overlay.unlink(missing_ok=True)  # of a fork that was killed before its machine had it
        copy_overlay(seed, overlay)
    except BaseException:
        (folder / next_disk(record)).unlink(missing_ok=True)
        await to_the_end(asyncio.to_thread(shutil.rmtree, layer, ignore_errors=True))
        raise
    before, record = record, dataclasses.replace(record, disk=overlay.name, layers=(*record.layers, layer.name))
    try:
        with writing("the sandbox's record cannot be written", folder):
            record.write(folder)
            (folder / STANDING).touch(mode=0o600)
        capture = await machine.capture(memory, layer / "state", overlay)
    except BaseException:
        await to_the_end(_unfreeze(machine, folder, before, overlay, layer))
        raise
    finally:
        (folder / STANDING).unlink(missing_ok=True)
    for old in folder.glob("disk*.qcow2"):
        if old != overlay:
            old.unlink()
    origin = Origin(
        template,
        state=layer / "state",
        overlay=seed,
        since_ns=capture.stopped_ns,
        memory=record.memory,
        layers=record.layers,
        pages=capture.pages,
        connected=capture.connected,
        forked=True,
        parent=record.id,
    )
    return Frozen(origin, capture, layer, record)


async def _unfreeze(machine: Machine, folder: Path, before: Record, overlay: Path, layer: Path) -> None:
    """Put the record right when the machine still writes to the disk that it had."""
    try:
        _, active = await machine.disk_node()
    except StormcellError:
        return  # it ended; the record is right either way, and gc takes what is left
    if active != overlay:
        overlay.unlink(missing_ok=True)
        shutil.rmtree(layer, ignore_errors=True)
        before.write(folder)


async def step_clock(link: Link, capture: Capture) -> None:
    """The parent's wall clock did not live through the pause. A guest that does not answer keeps its lag."""
    if not capture.running:
        return
    try:
        async with asyncio.timeout(CLOCK_S), link.use() as channel:
            await channel.clock(advance_ns=round(capture.paused_s * 1e9), timeout=CLOCK_S)
    except (StormcellError, TimeoutError):
        pass


async def _flat(machine: Machine, folder: Path, record: Record, template: Template) -> Record:
    """Join the overlays under the disk when they are many."""
    if len(record.layers) < layers.DEEP:
        return record
    await machine.flatten(template.disk)
    record = dataclasses.replace(record, layers=())
    record.write(folder)
    return record


async def wake(machine: Machine, folder: Path) -> None:
    """Let a guest go on that stands still because the process that captured it was killed in that moment."""
    if (folder / STANDING).exists():
        with lock(folder / "fork.lock", wait=False) as mine:
            if mine and (folder / STANDING).exists():
                if not (folder / "paused").exists():
                    await machine.cont()
                (folder / STANDING).unlink(missing_ok=True)


def latest(record: Record, folder: Path) -> Record:
    """The record as another process may have changed it; the one at hand when it cannot be read."""
    return Record.read(folder) or record


@contextlib.asynccontextmanager
async def alone(folder: Path) -> AsyncIterator[None]:
    """One capture of a sandbox at a time. Raises SandboxError when the other one does not end."""
    deadline = time.monotonic() + WAIT_S
    while True:
        with lock(folder / "fork.lock", wait=False) as mine:
            if mine:
                yield
                return
        if time.monotonic() > deadline:
            raise SandboxError("the sandbox is being forked by another process", where=folder.name)
        await asyncio.sleep(0.01)
