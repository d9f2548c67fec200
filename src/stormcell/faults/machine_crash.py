"""`machine.crash`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from stormcell.faults._fields import Documented
from stormcell.faults._reading import mapping, mappings
from stormcell.spec.fault import Act, Needs, Reading

PANIC = "Kernel panic - not syncing"


class MachineCrash(Documented):
    """The whole machine dies at once, and may boot again from the disk that it left.

    panic: the kernel panics (sysrq c). reboot: it resets without sync or unmount (sysrq b). power: the virtual machine
    monitor is killed with SIGKILL. In all three the guest's page cache is lost, and what the guest flushed is on disk.
    """

    kind = "machine.crash"
    on_machine = True
    needs = Needs()
    counts = "machines that went down"
    proves = (
        "the VMM's process seen dead, the console (panic), the reset event (reboot), and a new boot id when it boots"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "machine.crash", "mode": "power", "boot": True}

    mode: Literal["panic", "reboot", "power"]
    """How it dies."""
    boot: bool = True
    """Boot it again, cold, from its own disk, and ask the probes whether it recovered."""

    def plan(self) -> Act:
        """No command in the guest: a guest that dies can tell nothing."""
        return Act(apply=(), undo=(), read=())

    def in_force(self, before: Reading, during: Reading) -> bool:
        """It went down, and in the way that was asked for."""
        if not _gone(during):
            return False
        panicked = PANIC in during.text("console")
        if self.mode == "panic":
            return panicked
        return not panicked and (self.mode == "power" or _was_reset(during))

    def acted(self, during: Reading, after: Reading) -> int:
        """1 when it is gone and did not come back as the same boot."""
        came_back = after.text("boot_id_after")
        return int(_gone(after) and came_back != after.text("boot_id_before"))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """A boot leaves nothing of the crash but what is on the disk, and that is what the probes ask about."""
        return True

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """How the VMM ended, and the boots."""
        if after is None:
            return ()
        reason = mapping(after, "vmm").get("reason")
        said = [f"the virtual machine monitor ended: {reason}"] if reason else []
        if was := after.text("boot_id_before"):
            said.append(f"boot id {was} became {after.text('boot_id_after') or 'none: it was not booted again'}")
        return tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """A virtual disk's honesty."""
        return (
            "the virtual disk keeps all that the guest flushed; a real one with a volatile cache may lie about that",
            "what the host wrote for the guest without a flush is not lost: the host itself did not crash",
        )


def _gone(reading: Reading) -> bool:
    return mapping(reading, "vmm").get("process_gone") is True


def _was_reset(reading: Reading) -> bool:
    for event in mappings(reading.json_of("events")):
        data = event.get("data")
        reason = data.get("reason") if isinstance(data, dict) else None
        if event.get("event") == "RESET" or (event.get("event") == "SHUTDOWN" and reason == "guest-reset"):
            return True
    return False
