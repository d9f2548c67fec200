"""Time and identity that outlive a process: the host's boot, its clock that also counts sleep, and who a pid is."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from stormcell.machine.model import ProcessIdentity
from stormcell.machine.process import identity_of


@cache
def boot_id() -> str:
    """The kernel's own name for this boot. A pid of another boot names nobody."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def boottime_ns() -> int:
    """CLOCK_BOOTTIME: never set back, goes on while the host is suspended, starts again at a boot."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass(frozen=True)
class ProcessRef:
    """A process, named so that a reused pid or a later boot cannot be mistaken for it."""

    pid: int
    start_time: int
    boot_id: str

    @classmethod
    def of(cls, identity: ProcessIdentity) -> ProcessRef:
        """A process of this boot."""
        return cls(identity.pid, identity.start_time, boot_id())

    @classmethod
    def here(cls) -> ProcessRef:
        """This process."""
        identity = identity_of(os.getpid())
        assert identity is not None, "a process that runs has an entry in /proc"
        return cls.of(identity)

    @property
    def identity(self) -> ProcessIdentity | None:
        """For a pidfd; None when it is of another boot, and so surely gone."""
        return ProcessIdentity(self.pid, self.start_time) if self.boot_id == boot_id() else None

    def alive(self) -> bool:
        """Whether this very process runs now; a zombie does not."""
        return self.identity is not None and identity_of(self.pid) == self.identity
