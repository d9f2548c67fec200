"""From a moment of a machine to a sandbox that acknowledged that it lives."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import secrets
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.channel import Channel, Identity, Orphan
from stormcell.machine.disk import copy_overlay, writing
from stormcell.machine.machine import Machine
from stormcell.machine.model import AGENT_PORTS, Forward
from stormcell.machine.sockets import Slot, connect
from stormcell.sandbox import admission, lease, reaper
from stormcell.sandbox.activity import Activity
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.link import to_the_end
from stormcell.sandbox.origin import Origin, machine_spec, memory_file
from stormcell.sandbox.record import Record, State, checked_metadata, checked_ports, checked_ttl, new_id
from stormcell.sandbox.removal import remove
from stormcell.sandbox.survey import making_name
from stormcell.spec.home import Home, private_folder
from stormcell.template.model import Template

MAKING_S = 300.0
"""The lease of what is being made, however short its ttl, which begins when it and its siblings are there."""
RESUME_S = 60.0
"""For the guest's acknowledgement; on a quiet host it takes milliseconds."""

Mark = Callable[[str], None]
"""Told the name of each step when it is done: where the time of a create goes."""


@dataclass(frozen=True)
class Made:
    """A sandbox that lives."""

    folder: Path
    record: Record
    machine: Machine
    channel: Channel
    orphans: tuple[Orphan, ...] = ()


@dataclass(frozen=True)
class Wishes:
    """What whoever asks for a sandbox may choose. Made by `checked`."""

    ttl_seconds: float
    metadata: Mapping[str, str]
    open_ports: Mapping[str, int]
    raw: bool
    detached: bool

    @classmethod
    def checked(
        cls,
        ttl_seconds: float,
        metadata: Mapping[str, str] | None,
        open_ports: Mapping[str, int] | None,
        raw: bool,
        detached: bool,
    ) -> Wishes:
        """Raises SpecError."""
        return cls(checked_ttl(ttl_seconds), checked_metadata(metadata), checked_ports(open_ports), raw, detached)

    @property
    def forwards(self) -> tuple[Forward, ...]:
        """To any free port of the host."""
        return tuple(Forward(name, port) for name, port in self.open_ports.items())


def begin(
    template: Template,
    wishes: Wishes,
    home: Home,
    *,
    memory: str,
    layers: tuple[str, ...] = (),
    parent: str = "",
    snapshot: str = "",
    state: State = "creating",
) -> Path:
    """The folder with its lease and record, complete from the moment that it has its name; no process yet."""
    name, here = new_id(), ProcessRef.here()
    making = home.sandboxes / making_name(name, here)
    with writing("the sandbox's folder cannot be made", making):
        making.mkdir(mode=0o700)
        try:
            lease.begin(making, max(wishes.ttl_seconds, MAKING_S))
            Record(
                id=name,
                template=template.digest,
                template_name=template.name,
                state=state,
                ttl_seconds=wishes.ttl_seconds,
                owner=here,
                metadata=wishes.metadata,
                open_ports=wishes.open_ports,
                raw=wishes.raw,
                layers=layers,
                memory=memory,
                parent=parent,
                snapshot=snapshot,
            ).write(making)
            making.rename(home.sandboxes / name)
        except BaseException:
            remove(making, "its making failed")
            raise
    return home.sandboxes / name


async def make(origin: Origin, wishes: Wishes, mark: Mark = lambda _: None) -> Made:
    """A sandbox that goes on from `origin`. A failure leaves no process and no file, and is raised as it was."""
    home = Home.current()
    private_folder(home.sandboxes)
    admission.admit_here(origin.template.shape.memory_mib << 20, home.sandboxes)
    folder = begin(
        origin.template,
        wishes,
        home,
        memory=origin.memory,
        layers=origin.layers,
        parent=origin.parent,
        snapshot=origin.snapshot,
    )
    mark("record")
    async with undone_unless_made(folder) as started, Activity(folder, wishes.ttl_seconds).work():
        started.append(await start_ahead(origin.template, folder, home, origin.memory, wishes))
        mark("machine")
        return await go_on(started[0], folder, origin, wishes, mark)


async def start_ahead(template: Template, folder: Path, home: Home, memory: str, wishes: Wishes) -> Machine:
    """A process that waits for its moment, with its ports and its memory."""
    spec = machine_spec(template, folder, home, memory=memory, forwards=wishes.forwards, disk="disk.qcow2")
    return await Machine.ahead(spec, folder)


async def go_on(machine: Machine, folder: Path, origin: Origin, wishes: Wishes, mark: Mark = lambda _: None) -> Made:
    """Let a waiting machine go on from `origin`, and tell its guest who it is."""
    # beside the restore: a reaper takes longer to start than a machine
    watched = asyncio.create_task(asyncio.to_thread(reaper.ensure, Home.current().state))
    channel: Channel | None = None
    try:
        channel, orphans = await wake(machine, folder, origin, wishes.raw, mark)
        ports = await machine.ports()
        await watched
        record = Record.read(folder)
        assert record is not None
        owner = None if wishes.detached else record.owner
        machine_ref = ProcessRef.of(machine.identity)
        record = dataclasses.replace(record, state="running", machine=machine_ref, owner=owner, ports=ports)
        with writing("the sandbox's record cannot be written", folder):
            record.write(folder)
        mark("recorded")
    except BaseException:
        await asyncio.wait({watched})
        watched.cancelled() or watched.exception()
        if channel is not None:
            await channel.close()
        raise
    return Made(folder, record, machine, channel, orphans)


async def wake(
    machine: Machine, folder: Path, origin: Origin, raw: bool, mark: Mark = lambda _: None
) -> tuple[Channel, tuple[Orphan, ...]]:
    """Load `origin` into a waiting machine and let it run; its guest has acknowledged who it is now, unless `raw`."""
    copy_overlay(origin.overlay, folder / "disk.qcow2")
    mark("disk")
    own = None
    if origin.pages is not None or origin.filled:
        own = (memory_file(origin.memory, folder, origin.template, Home.current()), origin.pages)
    await machine.load(folder / "disk.qcow2", origin.state, own)
    mark("loaded")
    async with _attended(machine, origin) as dial:
        went_on = await machine.cont()
        channel = await dial()
        orphans: tuple[Orphan, ...] = ()
        try:
            if raw:
                await channel.ready(RESUME_S)
            else:
                advance = went_on - origin.since_ns
                orphans = (await channel.resume(new_identity(folder.name), RESUME_S, advance_ns=advance)).orphans
        except BaseException:
            await channel.close()
            raise
    mark("resumed")
    return channel, orphans


@contextlib.asynccontextmanager
async def _attended(machine: Machine, origin: Origin) -> AsyncIterator[Callable[[], Awaitable[Channel]]]:
    """Somebody at every agent port where somebody was: a guest takes a hang-up for the end of those it serves.

    Yields what connects the channel. The others are let go once the guest knows that it is another machine.
    """
    wanted = {port: Slot.at(machine.folder, "agent", port) for port in origin.connected if port < AGENT_PORTS}
    slots = {port: slot for port, slot in wanted.items() if slot is not None}
    ends: dict[int, socket.socket] = {}
    try:
        for port, slot in slots.items():
            ends[port] = connect(slot.path)

        async def dial() -> Channel:
            if not ends:
                return await machine.channel(forked=origin.forked)
            port = min(ends)
            slot = slots.pop(port)
            return await Channel.over(ends.pop(port), str(slot.path), on_close=slot.release, forked=origin.forked)

        yield dial
    finally:
        for end in ends.values():
            end.close()
        for slot in slots.values():
            slot.release()


@contextlib.asynccontextmanager
async def undone_unless_made(folder: Path) -> AsyncIterator[list[Machine]]:
    """Around a making: when it fails, the machines that were put in the list and the folder go.

    What could not be removed is noted on the error, for gc.
    """
    started: list[Machine] = []
    try:
        yield started
    except BaseException as error:
        explained = started[0].explained(error) if started else error
        await to_the_end(_undo(folder, started, explained))
        if explained is not error:
            raise explained from error
        raise


def new_identity(name: str) -> Identity:
    """A hostname, a machine id and a generation that no sibling has."""
    return Identity(hostname=name, machine_id=secrets.token_hex(16), generation=secrets.token_hex(8))


async def _undo(folder: Path, started: list[Machine], error: BaseException) -> None:
    for machine in started:
        await machine.given_up()
    evidence = await asyncio.to_thread(remove, folder, "its making failed")
    if evidence is None or not evidence.complete:
        error.add_note(f"{folder} could not be removed; run: stormcell gc")
