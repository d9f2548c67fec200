"""`process.descriptors`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from stormcell.faults._holders import number
from stormcell.faults._reading import mapping, mappings
from stormcell.faults._rlimit import LoweredLimit
from stormcell.spec.fault import Needs, Reading


class ProcessDescriptors(LoweredLimit):
    """Files, sockets and pipes cannot be opened any more: EMFILE for the target's processes, ENFILE for the guest.

    With a target its limit on open files (RLIMIT_NOFILE) is lowered to what it has open. Without one the guest's
    (fs.file-max) is; the kernel holds no process of root to that one.
    """

    needs_target = False
    limit = "nofile"
    kind = "process.descriptors"
    needs = Needs(paths=("/sys/kernel/tracing/events/raw_syscalls/sys_exit",))
    counts = "calls of the target that were answered EMFILE (ENFILE without a target)"
    proves = "a histogram of the tracepoint sys_exit by process, and the limits as the kernel shows them"
    example: ClassVar[dict[str, Any]] = {"kind": "process.descriptors", "service": "postgresql", "leave": 0}

    leave: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 0
    """How many more each of its processes (or the guest) may open."""

    @property
    def which(self) -> str:
        """Of a process or of the guest."""
        return "file-max" if self.target[0] == "none" else self.limit

    def value(self) -> str:
        """More than are open."""
        return f"+{self.leave}"

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The kernel shows the limit."""
        if self.target[0] != "none":
            return super().in_force(before, during)
        was, now = mapping(before, "rlimit"), mapping(during, "rlimit")
        new, old, used = number(now, "new"), number(now, "old"), number(now, "used")
        if not was or was.get("limit") is not None or new is None or old is None or used is None:
            return False
        fits = now.get("file_max") == f"{new:.0f}" and was.get("file_max") == f"{old:.0f}" and new == used + self.leave
        return fits and new < old and now.get("counting") is True

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Still so."""
        if self.target[0] != "none":
            return super().lasted(before, during, after)
        return self.in_force(before, during) and self.in_force(before, after)

    def acted(self, during: Reading, after: Reading) -> int:
        """Without a target everybody's."""
        if self.target[0] != "none":
            return super().acted(during, after)
        return sum(int(number(r, "hits") or 0) for r in mappings(mapping(after, "rlimit").get("refused")))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The old limit is back."""
        if self.target[0] != "none":
            return super().clean(before, undone)
        was, now = mapping(before, "rlimit"), mapping(undone, "rlimit")
        back = bool(was) and "file_max" in now and was.get("file_max") == now["file_max"]
        return back and now.get("limit") is None and now.get("counting") is False
