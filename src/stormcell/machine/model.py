"""What a microVM is made of, as plain values."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

Accel = Literal["tcg", "kvm"]

AGENT_PORTS = 6
"""Host processes that may talk to one guest at the same time: QEMU's socket chardevs serve one client each."""
QMP_PORTS = 6


@dataclass(frozen=True)
class Shape:
    """What must be equal for a snapshot of one machine to run in another."""

    memory_mib: int = 512
    vcpus: int = 1
    accel: Accel = "tcg"


@dataclass(frozen=True)
class Forward:
    """A guest TCP port that 127.0.0.1 on the host reaches. `host_port` 0 means any free one."""

    name: str
    guest_port: int
    host_port: int = 0


@dataclass(frozen=True)
class MachineSpec:
    """One microVM. `disk` is a qcow2 file; `memory` is the file behind guest RAM.

    `share` true writes guest RAM to that file (a template being made); false maps it copy-on-write.
    """

    name: str
    shape: Shape
    kernel: Path
    initrd: Path
    disk: Path
    memory: Path
    share: bool = False
    forwards: tuple[Forward, ...] = ()
    command_line: tuple[str, ...] = ()
    """Words added to the guest kernel's command line."""


@dataclass(frozen=True)
class ProcessIdentity:
    """A process by pid and start time (clock ticks since the host's boot, field 22 of /proc/PID/stat).

    A pid alone names nobody: the kernel gives it to the next process once its owner is gone.
    """

    pid: int
    start_time: int


@dataclass(frozen=True)
class ExitEvidence:
    """What was seen when a machine's process ended.

    `status` is that of waitpid (negative: the signal), None when the process was not our child. `reason` is the
    guest's own (`guest-reset`, `guest-panic`, `guest-shutdown`), `SIGKILL`, or `gone` when nobody saw why.
    """

    pid: int
    start_time: int
    process_gone: bool
    status: int | None
    reason: str
    waited_s: float

    def as_dict(self) -> dict[str, Any]:
        """For records and `--json`."""
        return asdict(self)
