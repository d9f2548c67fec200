"""The command line of QEMU for a machine whose time is its instruction count. Pure.

Nothing in it depends on the host: no frequency, no clock, no entropy, no path that the guest could see.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from stormcell.guest.sealed.stop import BELL, GATES
from stormcell.machine.argv import SANDBOX, Ends, agent_ports, comma, emulated, monitors
from stormcell.machine.sealed.layout import MIB, Layout
from stormcell.spec.epoch import EPOCH

SHIFT = 1
"""An instruction takes 2 ns of the guest's time (`-icount shift=1`): 500 million of them are a second."""
TSC_KHZ = 1_000_000
"""The time stamp counter counts those nanoseconds (cpus_get_elapsed_ticks in softmmu/cpus.c, icount_get)."""
CPU = "max,-erms,-rdrand,-rdseed"
"""Without instructions that draw random numbers: QEMU's count of drawn ones is in no snapshot."""
CONSOLE_NAME = "console.log"
BELL_NAME = "bell"
GATE_NAMES = ("gate.0", "gate.1")
Clock = Literal["warped", "real"]
"""Idle time is skipped, or waited for as on any machine: then somebody may talk to the guest."""


@dataclass(frozen=True)
class SealedSpec:
    """One sealed machine; `memory` is the file behind its memory, disk and mailbox, copy-on-write unless `share`."""

    name: str
    layout: Layout
    kernel: Path
    initrd: Path
    memory: Path
    share: bool = False
    clock: Clock = "warped"
    epoch: int = EPOCH


def command_line(layout: Layout) -> str:
    """The guest kernel's command line."""
    words = ["console=ttyS0", "quiet", "reboot=t", "panic=1", "lsm=lockdown,capability,bpf"]
    return " ".join([*words, *emulated(TSC_KHZ), *layout.words()])


def sealed_argv(qemu: Path, spec: SealedSpec, ends: Ends, pipes: Path, *, incoming: bool) -> list[str]:
    """The whole command line; nothing runs before it is told to. `incoming` waits for a device state first.

    `pipes` is the folder of those that it stands still at.
    """
    size = spec.layout.size // MIB
    share = "on" if spec.share else "off"
    sleep = "off" if spec.clock == "warped" else "on"
    # fmt: off
    argv = [
        str(qemu),
        "-name", spec.name,
        "-nodefaults", "-no-user-config", "-nographic",
        "-sandbox", SANDBOX,
        # the kernel takes notice of persistent memory where it looks for PCI resources (e820__reserve_resources_late)
        "-M", "microvm,rtc=on,pcie=on,memory-backend=mem",
        "-accel", "tcg,thread=single",
        # recorded into nothing: then QEMU's main loop and its processor thread take turns. Else the main loop may set
        # the clock of an idle guest forward while its last instructions are still to be counted, now and then
        "-icount", f"shift={SHIFT},sleep={sleep},rr=record,rrfile=/dev/null",
        "-seed", "1",
        "-rtc", f"base={datetime.fromtimestamp(spec.epoch, UTC):%Y-%m-%dT%H:%M:%S},clock=vm",
        "-cpu", CPU,
        "-smp", "1",
        "-m", str(size),
        "-object", f"memory-backend-file,id=mem,size={size}M,mem-path={comma(spec.memory)},share={share}",
        # a crash of the guest may be part of its run: what it leaves is still to be read, and goes on in another QEMU
        "-action", "reboot=shutdown,shutdown=pause,panic=pause",
        "-kernel", str(spec.kernel), "-initrd", str(spec.initrd),
        "-append", command_line(spec.layout),
        # a file takes every byte at once: what waits for somebody would be seen by the guest
        "-chardev", f"file,id=console,append=on,path={comma(pipes / CONSOLE_NAME)}",
        "-serial", "chardev:console",
        "-device", "pvpanic",
        "-device", f"virtio-serial-device,max_ports={len(ends.agent) + 1}",
    ]
    # fmt: on
    for port, name in ((BELL, BELL_NAME), *zip(GATES, GATE_NAMES, strict=True)):
        argv += ["-chardev", f"file,id={name},path={comma(pipes / name)}"]
        argv += ["-device", f"isa-debugcon,iobase={port:#x},chardev={name}"]
    argv += [*agent_ports(ends), *monitors(ends), "-global", "migration.send-configuration=off"]
    return [*argv, "-S", *(["-incoming", "defer"] if incoming else [])]
