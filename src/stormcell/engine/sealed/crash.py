"""The crash of a sealed machine, and the boot after it: both happen inside the run, and are repeated with it.

The guest's kernel panics or resets its machine, which ends it at an exact instruction. The next power-on is another
QEMU, with the disk as the crash left it (machine/sealed/reboot.py). A power cut is a reset without any warning: what
was not on the disk is lost in both.
"""

from __future__ import annotations

import json
from typing import Any

from stormcell.engine.sealed.log import SealedLog
from stormcell.guest.sealed.mailbox import ENDED, READY
from stormcell.machine.model import ExitEvidence
from stormcell.machine.sealed.machine import SealedMachine
from stormcell.spec.errors import MachineError
from stormcell.spec.plan import MachineStep

CONSOLE_LINES = 1000
SYSRQ = {"panic": "c", "reboot": "b", "power": "b"}


class Crash:
    """One act on the machine: `down`, `gone`, `up` if it boots again, and `told`. Use once.

    Writes the readings that a live crash writes (engine/crash.py).
    """

    def __init__(self, step: MachineStep, log: SealedLog, boot_id: str, seconds: float) -> None:
        """`seconds` of the host's bound each wait. The runner awaits `step`; `boot_id` is the one before."""
        self._step = step
        self._log = log
        self._seconds = seconds
        self._outputs: dict[str, Any] = {"boot_id_before": boot_id}

    async def down(self, machine: SealedMachine) -> None:
        """Until the guest is down. Raises MachineDied, MachineError."""
        step = self._step
        self._reading("before")
        self._log.host("machine", what="act", step=step.id, phase=step.phase, fault=step.fault, mode=step.mode)
        machine.line(json.dumps({"sysrq": SYSRQ[step.mode]}))
        event = await machine.go_down(self._seconds)
        self._outputs["console"] = machine.console_tail(CONSOLE_LINES)
        self._outputs["events"] = json.dumps([{"event": event["event"], "data": event.get("data") or {}}])

    def gone(self, evidence: ExitEvidence) -> None:
        """Its process was seen dead."""
        self._outputs["vmm"] = json.dumps({"process_gone": evidence.process_gone})
        self._log.host("machine", what="exit", step=self._step.id, evidence={"process_gone": evidence.process_gone})

    async def up(self, machine: SealedMachine) -> float:
        """From its power-on until it answers: that many seconds of the guest's. Raises MachineDied, MachineError."""
        self._log.host("machine", what="boot", step=self._step.id)
        status = (await machine.go(self._seconds)).status
        if status.why != READY:
            raise MachineError("the guest does not answer behind its boot")
        booted = status.now_ns / 1e9
        self._outputs["boot_id_after"] = await _boot_id(machine, self._seconds)
        self._log.passed(booted)
        self._log.host("machine", what="booted", step=self._step.id, seconds=round(booted, 6))
        return booted

    def told(self) -> None:
        """The readings of what became of it."""
        for label in ("during", "after"):
            self._reading(label)

    def _reading(self, label: str) -> None:
        step = self._step
        outputs = {name: {"exit": 0, "out": str(text)} for name, text in self._outputs.items()}
        reading = {"at": 0.0, "outputs": outputs}
        self._log.host("reading", step=step.id, phase=step.phase, fault=step.fault, label=label, reading=reading)


async def _boot_id(machine: SealedMachine, seconds: float) -> str:
    machine.order({"op": "exec", "argv": ["cat", "/proc/sys/kernel/random/boot_id"], "timeout_s": 20})
    if (await machine.go(seconds)).status.why != ENDED:
        raise MachineError("the guest does not say which boot it is")
    return machine.answer()[0][1].decode(errors="replace").strip()
