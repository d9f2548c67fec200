"""Pause, resume, and a boot after the machine ended."""

from __future__ import annotations

import dataclasses

from stormcell.machine.channel import Channel
from stormcell.machine.machine import Machine
from stormcell.machine.model import Forward
from stormcell.sandbox import layers
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.link import Link, to_the_end
from stormcell.sandbox.making import new_identity
from stormcell.sandbox.origin import machine_spec
from stormcell.sandbox.record import Record
from stormcell.spec.errors import SandboxError
from stormcell.spec.home import Home
from stormcell.template.store import Store


async def pause(link: Link) -> None:
    """Stop the guest. A mark in its folder tells other processes why it does not answer."""
    link.check()
    link.activity.touch()
    (link.folder / "paused").touch(mode=0o600)
    await link.machine.pause()


async def resume(link: Link) -> None:
    """Let it go on; harmless when it runs."""
    link.check()
    link.activity.touch()
    await link.machine.cont()
    (link.folder / "paused").unlink(missing_ok=True)


async def boot(link: Link, record: Record, timeout: float) -> Record:
    """From power-on, with the disk as the ended machine left it and fresh memory; the host ports stay the same."""
    async with link.activity.work():
        if await link.machine.wait_exit(0) is None:
            raise SandboxError(
                "the machine still runs", where=record.id, rule="only a machine that ended is booted again"
            )
        home = Home.current()
        record = Record.read(link.folder) or record  # another process may have forked it
        template = Store(home).open(record.template)
        (link.folder / "memory").unlink(missing_ok=True)
        forwards = tuple(Forward(name, port, record.ports[name]) for name, port in record.open_ports.items())
        spec = machine_spec(template, link.folder, home, memory=layers.EMPTY, forwards=forwards, disk=record.disk)
        (link.folder / "paused").unlink(missing_ok=True)
        machine = await Machine.start(spec, link.folder)
        try:
            channel = await _answering(machine, record.id, timeout)
        except BaseException:
            await to_the_end(_abandon(machine))
            raise
        await link.replace(machine, channel)
        booted = dataclasses.replace(record, machine=ProcessRef.of(machine.identity), memory=layers.EMPTY)
        booted.write(link.folder)
        return booted


async def _answering(machine: Machine, name: str, timeout: float) -> Channel:
    channel = await machine.channel(timeout)
    try:
        await channel.ready(timeout)
        await channel.resume(new_identity(name))
    except BaseException:
        await channel.close()
        raise
    return channel


async def _abandon(machine: Machine) -> None:
    await machine.kill()
    await machine.close()
