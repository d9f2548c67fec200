"""`file.remove`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._named import TRACING, NamedFile
from stormcell.faults._reading import mapping
from stormcell.spec.fault import Needs, Reading


class FileRemove(NamedFile):
    """A file or folder is gone: who names it gets ENOENT. The undo brings back the very same one."""

    kind = "file.remove"
    needs = Needs(paths=(TRACING,))
    counts = "calls of other processes that named the path, or what lay below it, and got ENOENT"
    proves = "the path by stat, and the kernel's own results of name lookups and opens of that path, by process"
    example: ClassVar[dict[str, Any]] = {"kind": "file.remove", "path": "/etc/app.conf"}

    @property
    def verb(self) -> tuple[str, str]:
        """Renamed to a hidden folder at the top of the same file system."""
        return "remove", ""

    def in_force(self, before: Reading, during: Reading) -> bool:
        """It was there, it is not there, and it is kept."""
        began = self.began(before, during)
        return began is not None and began[2].get("now") is None and began[2].get("away") is True

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """A target may make it anew; that is its answer to the fault."""
        return self.in_force(before, during) and mapping(after, "file").get("away") is True

    def acted(self, during: Reading, after: Reading) -> int:
        """ENOENT."""
        return sum(self.met(after, "ENOENT").values())

    def cannot_know(self) -> tuple[str, ...]:
        """Open files."""
        return (*super().cannot_know(), "who has the file open already goes on, and sees it renamed, not unlinked")
