"""`file.delay`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from stormcell.faults._bpf import NEEDS, schema, target_words
from stormcell.faults._delay import Delays, explained
from stormcell.faults._fields import GuestPath
from stormcell.faults._traced import Traced
from stormcell.guest.tools.bpf.delays import GROUPS
from stormcell.spec.fault import Command

OF_FILES = tuple(group.name for group in GROUPS if group.about_files)


class FileDelay(Delays, Traced):
    """Operations of a service or of some processes on a file, or on all below a folder, take longer.

    As syscall.delay: only the thread that made the call waits, also for files that were open before, and nothing is
    mounted. What the disk itself does is not slower; for that there are the faults of block devices.
    """

    kind = "file.delay"
    needs = NEEDS
    counts = "operations whose thread was held for the delay"
    proves = "calls that the program in the kernel chose, by process; threads that the kernel stopped for the tracer"
    example: ClassVar[dict[str, Any]] = {
        "kind": "file.delay", "service": "postgresql", "path": "/var/lib/postgresql", "operation": ["read", "fsync"],
        "delay": "50ms", "jitter": "20ms",
    }  # fmt: skip

    path: GuestPath
    """A file, or a folder: all files below it. As in file.errno."""
    operation: Annotated[tuple[str, ...], *schema(OF_FILES)] = Field(description=explained(OF_FILES))

    def groups(self) -> tuple[str, ...]:
        """As asked."""
        return self.operation

    def by(self) -> str:
        """How the target is found."""
        return self.target[0]

    def words(self) -> tuple[str, ...]:
        """Whom, which operations, on what."""
        return (*target_words(self), f"call={','.join(self.operation)}", f"path={self.path}")

    def change(self, to: FileDelay) -> tuple[Command, ...] | None:
        """Delay, jitter, rate, every and limit."""
        return self.change_delays(to)
