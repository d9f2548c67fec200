"""`disk.fill`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._disk import TRACEPOINT, Filler, all_refused, none_refused, told
from stormcell.faults._fields import FreeSpace, UserName
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import size


class DiskFill(Filler):
    """The file system that holds a folder is full: writes come back with ENOSPC."""

    kind = "disk.fill"
    needs = Needs(paths=(TRACEPOINT,))
    counts = "system calls of other processes that came back with ENOSPC or EDQUOT"
    proves = "a probe's own writes as that user, all refused, and the kernel's count of refused calls by process"
    example: ClassVar[dict[str, Any]] = {"kind": "disk.fill", "path": "/var/lib/postgresql", "user": "postgres"}

    leave: FreeSpace = "0B"
    """How much the user may still write: a size, or a percentage of the file system."""
    user: UserName = "nobody"
    """Whose writes shall fail. ext4 keeps a reserve (5 %) for root alone; for root the reserve is filled too."""

    @property
    def what(self) -> str:
        """Bytes."""
        return "blocks"

    def taken(self) -> tuple[str, ...]:
        """Folder, user, what is left."""
        return (self.path, self.user, in_bytes(self.leave))

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Our file is there, every write as the user is refused now, and none was before."""
        was, now = told(before), told(during)
        return (
            none_refused(was)
            and was.get("filler") is None
            and isinstance(now.get("filler"), int)
            and now["filler"] > 0
            and all_refused(now)
        )

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Our file is gone, nothing counts, the same write works again. In a folder that never was, nothing is left."""
        now = told(undone)
        if not now and not told(before):
            return True
        return bool(now) and now.get("filler") is None and now.get("refused") is None and none_refused(now)

    def cannot_know(self) -> tuple[str, ...]:
        """Blocks that a file has already; other users."""
        said = ["a process that overwrites what a file has already needs no room and is not refused"]
        if self.user != "root":
            said.append("root may still use what the file system keeps in reserve for it")
        return tuple(said)


def in_bytes(leave: str) -> str:
    """A plain number, or the percentage."""
    return leave if leave.endswith("%") else str(size(leave))
