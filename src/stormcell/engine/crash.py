"""The host's act on a machine: crash it, see it gone, boot it again from the disk that the crash left.

A guest that dies this way sends no answer, so nothing rests on one: the evidence is the VMM's, the console's and the
next boot's.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Protocol

from stormcell.machine.model import ExitEvidence
from stormcell.sandbox.api import AsyncSandbox
from stormcell.spec.errors import MachineError, OutcomeUnknown, SandboxError
from stormcell.spec.plan import MachineStep

SYSRQ = {"panic": "c", "reboot": "b"}
EXIT_S = 60.0
"""A panic waits 1 s (panic=1 on the command line) and then resets; emulated on a busy host it takes more."""


class Log(Protocol):
    """Where host events go."""

    def __call__(self, event: str, **fields: Any) -> None:
        """Record one."""


async def crash(sandbox: AsyncSandbox, step: MachineStep, log: Log) -> float | None:
    """Perform `step`. Returns the host's monotonic time at which the machine answered again, None without a boot.

    Writes the readings `before` (boot id) and `during` (VMM, console, events, the next boot's id), which is also
    `after`: a crash has no moment in which it goes on.
    """
    before = await sandbox.boot_id()
    _reading(log, step, "before", {"boot_id_before": before})
    log("machine", what="act", step=step.id, phase=step.phase, fault=step.fault, mode=step.mode)
    acted_at = time.monotonic()
    evidence = await _power_cut(sandbox) if step.mode == "power" else await _sysrq(sandbox, step.mode)
    console = await sandbox.console()
    outputs: dict[str, Any] = {
        "boot_id_before": before,
        "vmm": json.dumps(evidence.as_dict() if evidence else {"process_gone": False, "reason": "still running"}),
        "console": console,
        "events": json.dumps(sandbox.machine_events()),
    }
    log("machine", what="exit", step=step.id, evidence=evidence.as_dict() if evidence else None)
    booted_at: float | None = None
    if step.boot and evidence is not None and evidence.process_gone:
        log("machine", what="boot", step=step.id)
        try:
            await sandbox.cold_boot(timeout=step.boot_within_s)
        except (MachineError, SandboxError) as error:
            # the guest's failure; what the host lacks (room, a port, a program) rises as the host's
            log("machine", what="not_booted", step=step.id, text=str(error))
        else:
            booted_at = time.monotonic()
            outputs["boot_id_after"] = await sandbox.boot_id()
            log("machine", what="booted", step=step.id, seconds=round(booted_at - acted_at, 6))
    for label in ("during", "after"):
        _reading(log, step, label, outputs)
    return booted_at


async def _power_cut(sandbox: AsyncSandbox) -> ExitEvidence | None:
    return await sandbox.power_cut()


async def _sysrq(sandbox: AsyncSandbox, mode: str) -> ExitEvidence | None:
    """Ask the guest's kernel to crash. No answer is expected; one that comes means that it lives."""
    key = SYSRQ[mode]
    try:
        # the sleep keeps the command under way until the machine is gone
        async with asyncio.timeout(EXIT_S):
            await sandbox.exec(f"echo {key} > /proc/sysrq-trigger; sleep 30", timeout=EXIT_S)
    except (OutcomeUnknown, SandboxError, TimeoutError):
        pass
    return await sandbox.wait_exit(EXIT_S)


def _reading(log: Log, step: MachineStep, label: str, outputs: dict[str, Any]) -> None:
    reading = {"at": 0.0, "outputs": {name: {"exit": 0, "out": str(text)} for name, text in outputs.items()}}
    log("reading", step=step.id, phase=step.phase, fault=step.fault, label=label, reading=reading)
