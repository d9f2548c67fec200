"""`process.threads`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from stormcell.faults._rlimit import LoweredLimit
from stormcell.spec.fault import Needs


class ProcessThreads(LoweredLimit):
    """No more threads and processes for the user of a service: clone and fork answer EAGAIN.

    The limit (RLIMIT_NPROC) counts all threads of the user, whatever the process; each process of the target is held to
    it. The kernel holds root to no such limit: use `process.pids` for what runs as root.
    """

    limit = "nproc"
    kind = "process.threads"
    needs = Needs(paths=("/sys/kernel/tracing/events/raw_syscalls/sys_exit",))
    counts = "clone and fork calls of the target that were answered EAGAIN"
    proves = "a histogram of the tracepoint sys_exit by process, and the limits as the kernel shows them"
    example: ClassVar[dict[str, Any]] = {"kind": "process.threads", "user": "postgres", "leave": 0}

    leave: Annotated[int, Field(strict=True, ge=0, le=1_000_000)] = 0
    """How many more threads than now the user may have."""

    def value(self) -> str:
        """More than there are."""
        return f"+{self.leave}"
