"""The next power-on of a sealed machine whose guest is down: another QEMU, with the disk as it was left.

Not a reset of the same one: between the guest's last instruction and the reset QEMU's main loop may or may not set
the clock forward to the next timer (icount_start_warp_timer in softmmu/icount.c takes a stopped processor for idle),
and the time stamp counter goes on over a reset. A new process begins at zero.
"""

from __future__ import annotations

import asyncio
import dataclasses
from dataclasses import dataclass
from pathlib import Path

from stormcell.guest.sealed import mailbox
from stormcell.machine.model import ExitEvidence
from stormcell.machine.pages import Pages, Room, private_runs, put_in, region
from stormcell.machine.sealed.argv import SealedSpec
from stormcell.machine.sealed.machine import SealedMachine
from stormcell.machine.tasks import to_the_end

SECOND_NS = 1_000_000_000


@dataclass(frozen=True)
class Remains:
    """Of a machine that is gone: its disk and its mailbox, as far as they are not in the file behind its memory."""

    spec: SealedSpec
    folder: Path
    pages: Pages
    evidence: ExitEvidence


async def end(machine: SealedMachine, spec: SealedSpec) -> Remains:
    """Take what persists, and end the process. Raises MachineError, MachineDied, HostError; it is gone even so."""
    try:
        pages = await to_the_end(asyncio.to_thread(_persistent, machine, spec))
    finally:
        evidence = await machine.kill()
        await machine.close()
    return Remains(spec, machine.folder, pages, evidence)


def _persistent(machine: SealedMachine, spec: SealedSpec) -> Pages:
    low, _ = region(machine.identity, spec.memory)
    first, behind = low + spec.layout.disk, low + spec.layout.box + mailbox.SIZE
    runs = [(spec.layout.disk + place, length) for place, length in private_runs(machine.identity, first, behind)]
    return Room(sum(length for _, length in runs)).copy(machine.identity, low, runs)


async def power_on(remains: Remains, lived_ns: int) -> tuple[SealedMachine, SealedSpec]:
    """A machine before its first instruction, and what it is; its real-time clock is behind what the last one had.

    `lived_ns` is the guest's time since the last power-on. Raises as `SealedMachine.boot` does.
    """
    spec = dataclasses.replace(remains.spec, epoch=remains.spec.epoch + lived_ns // SECOND_NS + 1)
    machine = await SealedMachine.boot(spec, remains.folder)
    try:
        low, _ = region(machine.identity, spec.memory)
        await to_the_end(asyncio.to_thread(put_in, machine.identity, low, remains.pages))
    except BaseException:
        await machine.given_up()
        raise
    finally:
        remains.pages.close()
    return machine, spec
