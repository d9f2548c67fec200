"""`disk.inodes`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._disk import TRACEPOINT, Filler, all_refused, none_refused, told
from stormcell.faults._fields import FreeInodes
from stormcell.spec.fault import Needs, Reading

SLACK = 16


class DiskInodes(Filler):
    """The file system that holds a folder has no inodes left: no new file can be made, though there is room."""

    kind = "disk.inodes"
    needs = Needs(paths=(TRACEPOINT,))
    counts = "system calls of other processes that came back with ENOSPC or EDQUOT"
    proves = "a probe's own new files, all refused, the free inodes by statfs, and the kernel's count of refused calls"
    example: ClassVar[dict[str, Any]] = {"kind": "disk.inodes", "path": "/var/lib/redis"}

    leave: FreeInodes = "0"
    """How many files can still be made: a number, or a percentage of all inodes."""

    @property
    def what(self) -> str:
        """Inodes."""
        return "inodes"

    def taken(self) -> tuple[str, ...]:
        """Folder, what is left."""
        return (self.path, self.leave)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Our folder is there, and new files are refused; or, with some left, no more than those are free."""
        was, now = told(before), told(during)
        if was.get("filler") is not False or now.get("filler") is not True:
            return False
        if self.leave == "0":
            return none_refused(was) and all_refused(now)
        left, wanted = now.get("inodes_available"), now.get("leave")
        return isinstance(left, int) and isinstance(wanted, int) and left <= wanted + SLACK

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Our folder is gone, nothing counts, files can be made again. In a folder that never was, nothing is left."""
        now = told(undone)
        if not now and not told(before):
            return True
        return (
            now.get("filler") is False
            and now.get("refused") is None
            and (self.leave != "0" or none_refused(now))
        )  # fmt: skip

    def cannot_know(self) -> tuple[str, ...]:
        """Files that are there."""
        return ("writing to files that are there needs no inode and goes on",)
