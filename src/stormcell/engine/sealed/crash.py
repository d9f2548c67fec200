"""The crash of a sealed machine, and the boot after it: both happen inside the run, and are repeated with it.

Nothing is killed: the guest's kernel panics or resets its machine, QEMU starts that again from its power-on, and the
disk is as the crash left it. A power cut is a reset without any warning: what was not on the disk is lost in both.
"""

from __future__ import annotations

import json
from typing import Any

from stormcell.engine.sealed.log import SealedLog
from stormcell.guest.sealed.mailbox import ENDED, READY
from stormcell.machine.sealed.machine import SealedMachine
from stormcell.spec.errors import MachineError
from stormcell.spec.plan import MachineStep

CONSOLE_LINES = 1000
SYSRQ = {"panic": "c", "reboot": "b", "power": "b"}


async def crash(
    machine: SealedMachine, step: MachineStep, log: SealedLog, boot_id: str, seconds: float
) -> float | None:
    """Perform `step`; the runner awaits it. The guest's seconds from power-on until it answered, None without a boot.

    Writes the readings that a live crash writes (engine/crash.py). `seconds` of the host's bound each wait.
    """
    _reading(log, step, "before", {"boot_id_before": boot_id})
    log.host("machine", what="act", step=step.id, phase=step.phase, fault=step.fault, mode=step.mode)
    seen = len(machine.events)
    machine.line(json.dumps({"sysrq": SYSRQ[step.mode]}))
    halt = await machine.go(seconds)
    console = machine.console_tail(CONSOLE_LINES)
    reset = [_bare(event) for event in machine.events[seen:] if event["event"] == "RESET"]
    outputs: dict[str, Any] = {
        "boot_id_before": boot_id,
        "vmm": json.dumps({"process_gone": False, "reset": bool(reset)}),
        "console": console,
        "events": json.dumps(reset),
    }
    log.host("machine", what="exit", step=step.id, evidence={"reset": bool(reset)})
    booted: float | None = None
    if step.boot:
        log.host("machine", what="boot", step=step.id)
        if halt.status.why == READY:
            booted = halt.status.now_ns / 1e9
            outputs["boot_id_after"] = await _boot_id(machine, seconds)
            log.passed(booted)
            log.host("machine", what="booted", step=step.id, seconds=round(booted, 6))
        else:
            log.host("machine", what="not_booted", step=step.id, text="the guest did not answer after its reset")
    for label in ("during", "after"):
        _reading(log, step, label, outputs)
    return booted


async def _boot_id(machine: SealedMachine, seconds: float) -> str:
    machine.order({"op": "exec", "argv": ["cat", "/proc/sys/kernel/random/boot_id"], "timeout_s": 20})
    if (await machine.go(seconds)).status.why != ENDED:
        raise MachineError("the guest went down again behind its boot")
    return machine.answer()[0][1].decode(errors="replace").strip()


def _bare(event: dict[str, Any]) -> dict[str, Any]:
    """Without the host's time."""
    return {"event": event["event"], "data": event.get("data") or {}}


def _reading(log: SealedLog, step: MachineStep, label: str, outputs: dict[str, Any]) -> None:
    reading = {"at": 0.0, "outputs": {name: {"exit": 0, "out": str(text)} for name, text in outputs.items()}}
    log.host("reading", step=step.id, phase=step.phase, fault=step.fault, label=label, reading=reading)
