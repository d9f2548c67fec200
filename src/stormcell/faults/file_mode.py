"""`file.mode`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from stormcell.faults._named import TRACING, NamedFile
from stormcell.faults._reading import mapping
from stormcell.spec.fault import Needs, Reading


class FileMode(NamedFile):
    """A file or folder loses its permissions: who is not root and needs them gets EACCES."""

    kind = "file.mode"
    needs = Needs(paths=(TRACING,))
    counts = "calls of other processes that named the path, or what lies below it, and got EACCES"
    proves = "the mode by stat, and the kernel's own results of name lookups and opens of that path, by process"
    example: ClassVar[dict[str, Any]] = {"kind": "file.mode", "path": "/etc/app.conf", "mode": "0000"}

    mode: Annotated[str, Field(pattern=r"^0?[0-7]{3,4}$")] = "0000"
    """In octal digits, as chmod has it."""

    @property
    def verb(self) -> tuple[str, str]:
        """chmod."""
        return "mode", self.mode

    def in_force(self, before: Reading, during: Reading) -> bool:
        """That mode, and it was another."""
        began = self.began(before, during)
        if began is None:
            return False
        was, act, shown = began
        now = shown.get("now")
        wanted = f"{int(self.mode, 8):04o}"
        return (
            isinstance(now, dict) and now.get("inode") == act.get("inode") and now.get("mode") == wanted != was["mode"]
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """EACCES."""
        return sum(self.met(after, "EACCES").values())

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Its content is the target's own affair."""
        shown = mapping(undone, "file")
        was, now = mapping(before, "file").get("now"), shown.get("now")
        if isinstance(was, dict) and isinstance(now, dict):
            same = [item.get("mode") for item in (was, now) if item.get("inode") == was.get("inode")]
            if len(set(same)) > 1:
                return False
        return bool(shown) and (shown.get("act"), shown.get("counts")) == (None, None)

    def cannot_know(self) -> tuple[str, ...]:
        """Root, open files."""
        return (*super().cannot_know(), "root may read and write all the same (CAP_DAC_OVERRIDE)",
                "who has the file open already goes on")  # fmt: skip
