"""From a template to a sandbox that acknowledged that it lives."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.channel import Channel, Identity
from stormcell.machine.disk import copy_overlay
from stormcell.machine.machine import Machine
from stormcell.machine.model import Forward, MachineSpec
from stormcell.sandbox import admission, lease, reaper
from stormcell.sandbox.activity import Activity
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.link import to_the_end
from stormcell.sandbox.record import Record, checked_metadata, checked_ports, checked_ttl, new_id
from stormcell.sandbox.removal import remove
from stormcell.sandbox.survey import making_name
from stormcell.spec.home import Home, private_folder
from stormcell.template.model import Template

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


def begin(
    template: Template, ttl: float, metadata: Mapping[str, str], ports: Mapping[str, int], raw: bool, home: Home
) -> Path:
    """The folder with its lease and record, complete from the moment that it has its name; no process yet."""
    private_folder(home.sandboxes)
    admission.admit(
        template.shape.memory_mib << 20,
        admission.memory_available(),
        admission.disk_free(home.sandboxes),
        home.sandboxes,
    )
    name, here = new_id(), ProcessRef.here()
    making = home.sandboxes / making_name(name, here)
    making.mkdir(mode=0o700)
    try:
        lease.begin(making, ttl)
        Record(
            id=name,
            template=template.digest,
            template_name=template.name,
            state="creating",
            ttl_seconds=ttl,
            owner=here,
            metadata=metadata,
            open_ports=ports,
            raw=raw,
        ).write(making)
        making.rename(home.sandboxes / name)
    except BaseException:
        remove(making, "its making failed")
        raise
    return home.sandboxes / name


def machine_spec(template: Template, folder: Path, forwards: tuple[Forward, ...]) -> MachineSpec:
    """A machine that goes on from the template's snapshot, its memory and disk copy-on-write."""
    return MachineSpec(
        name=folder.name,
        shape=template.shape,
        kernel=template.kernel,
        initrd=template.initrd,
        disk=folder / "disk.qcow2",
        memory=template.memory,
        share=False,
        forwards=forwards,
    )


async def make(
    template: Template,
    *,
    ttl_seconds: float,
    metadata: Mapping[str, str] | None,
    open_ports: Mapping[str, int] | None,
    raw: bool,
    detached: bool,
    mark: Mark = lambda _: None,
) -> Made:
    """Restore `template`. A failure leaves no process and no file, and is raised as it was."""
    home = Home.current()
    ttl, wanted = checked_ttl(ttl_seconds), checked_ports(open_ports)
    folder = begin(template, ttl, checked_metadata(metadata), wanted, raw, home)
    mark("record")
    machine: Machine | None = None
    channel: Channel | None = None
    # beside the restore: a reaper takes longer to start than a machine
    watched = asyncio.create_task(asyncio.to_thread(reaper.ensure, home.state))
    try:
        async with Activity(folder, ttl).work():
            copy_overlay(template.overlay, folder / "disk.qcow2")
            mark("disk")
            forwards = tuple(Forward(name, port) for name, port in wanted.items())
            machine = await Machine.start(machine_spec(template, folder, forwards), folder, state=template.state)
            mark("machine")
            record = Record.read(folder)
            assert record is not None
            record = dataclasses.replace(record, machine=ProcessRef.of(machine.identity))
            channel = await machine.channel()
            if raw:
                await channel.ready(RESUME_S)
            else:
                await channel.resume(new_identity(folder.name), RESUME_S)
            mark("resumed")
            ports = await machine.ports()
            await watched
            owner = None if detached else record.owner
            record = dataclasses.replace(record, state="running", owner=owner, ports=ports)
            record.write(folder)
            mark("recorded")
    except BaseException as error:
        await to_the_end(_undo(folder, machine, channel, watched, error))
        raise
    return Made(folder, record, machine, channel)


def new_identity(name: str) -> Identity:
    """A hostname, a machine id and a generation that no sibling has."""
    return Identity(hostname=name, machine_id=secrets.token_hex(16), generation=secrets.token_hex(8))


async def _undo(
    folder: Path,
    machine: Machine | None,
    channel: Channel | None,
    watched: asyncio.Task[bool],
    error: BaseException,
) -> None:
    """Leave nothing; what could not be removed is noted on the error, for gc."""
    await asyncio.wait({watched})
    watched.cancelled() or watched.exception()
    if channel is not None:
        await channel.close()
    if machine is not None:
        await machine.kill()
        await machine.close()
    evidence = await asyncio.to_thread(remove, folder, "its making failed")
    if evidence is None or not evidence.complete:
        error.add_note(f"{folder} could not be removed; run: stormcell gc")
