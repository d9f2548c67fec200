"""Machines of the base template, for tests of what lies below sandboxes."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from stormcell.machine.channel import Channel, Identity
from stormcell.machine.disk import copy_overlay
from stormcell.machine.machine import Machine
from stormcell.machine.model import Forward, MachineSpec
from stormcell.spec.home import Home
from stormcell.template.build import build
from stormcell.template.model import Template
from stormcell.template.provision import Done, run
from stormcell.template.store import find

BOOT_S = 240.0


def base_template() -> Template:
    """The shipped base template; built when it is not there."""
    home = Home.current()
    return asyncio.run(build(find("base", home), home=home))


def spec_of(template: Template, folder: Path, **changes: Any) -> MachineSpec:
    """A machine of `template` in `folder`, with a disk of its own."""
    folder.mkdir(mode=0o700, exist_ok=True)
    if not (folder / "disk.qcow2").exists():
        copy_overlay(template.overlay, folder / "disk.qcow2")
    fields: dict[str, Any] = {
        "name": folder.name,
        "shape": template.shape,
        "kernel": template.kernel,
        "initrd": template.initrd,
        "disk": folder / "disk.qcow2",
        "memory": template.memory,
    }
    return MachineSpec(**{**fields, **changes})


@asynccontextmanager
async def restored(template: Template, folder: Path, *forwards: Forward) -> AsyncIterator[tuple[Machine, Channel]]:
    """A restored machine that has acknowledged `resumed`. It is killed afterwards."""
    async with await Machine.start(
        spec_of(template, folder, forwards=forwards), folder, state=template.state
    ) as machine:
        channel = await machine.channel()
        try:
            await channel.resume(Identity(folder.name, secrets.token_hex(16), secrets.token_hex(8)))
            yield machine, channel
        finally:
            await channel.close()


async def shell(channel: Channel, text: str, timeout: float = 60) -> Done:
    """Run shell text as root."""
    return await run(channel, ["/bin/sh", "-c", text], timeout=timeout)


async def output(channel: Channel, text: str, timeout: float = 60) -> str:
    """The output of shell text that must succeed."""
    done = await shell(channel, text, timeout)
    assert done.ok, (done.how, done.output)
    return done.output.decode()
