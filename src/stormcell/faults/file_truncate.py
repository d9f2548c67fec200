"""`file.truncate`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._named import TRACING, NamedFile
from stormcell.faults._reading import mapping
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import Size


class FileTruncate(NamedFile):
    """A file is cut short: what was behind the cut reads as the end of the file. The undo puts the content back."""

    kind = "file.truncate"
    needs = Needs(paths=(TRACING,))
    counts = "calls of other processes that named the path while it was cut, and got it"
    proves = (
        "the size and inode by stat, and the kernel's own results of name lookups and opens of that path, by process"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "file.truncate", "path": "/var/lib/app/data.db", "to": "4KiB"}

    to: Size = 0
    """What is left of it."""

    @property
    def verb(self) -> tuple[str, str]:
        """truncate(2), with a copy kept."""
        return "truncate", str(self.to)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """That size, the same inode, and it was larger."""
        began = self.began(before, during)
        if began is None or began[2].get("away") is not True:
            return False
        was, act, shown = began
        now = shown.get("now")
        size = was.get("size")
        return (
            isinstance(now, dict)
            and (now.get("size"), now.get("inode")) == (self.to, act.get("inode"))
            and isinstance(size, int)
            and size > self.to
        )

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """A target may write anew; that is its answer to the fault."""
        return self.in_force(before, during) and mapping(after, "file").get("away") is True

    def acted(self, during: Reading, after: Reading) -> int:
        """Opened or looked at."""
        return sum(self.met(after, "ok").values())

    def cannot_know(self) -> tuple[str, ...]:
        """Open files."""
        return (*super().cannot_know(), "who has the file open already meets the cut too, which is not counted")
