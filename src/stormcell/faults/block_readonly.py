"""`block.readonly`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._disk import TRACEPOINT
from stormcell.faults._fields import Documented, GuestPath
from stormcell.faults._reading import counted, mapping, numbers
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading


class BlockReadonly(Documented):
    """The file system that holds a path becomes read-only: every change comes back with EROFS, reading goes on.

    The kernel refuses this while somebody has a file open for writing there; then the act fails and says who.
    """

    kind = "block.readonly"
    needs = Needs(paths=(TRACEPOINT,))
    counts = "system calls of other processes that came back with EROFS"
    proves = (
        "the mount as the kernel shows it, a write of ours that is refused, and the count of refused calls by process"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "block.readonly", "path": "/var/lib/app"}

    path: GuestPath
    """Any path: the file system that really holds it is meant, with all its mounts; links are followed."""

    def plan(self) -> Act:
        """A mark says which mount it was."""
        return Act(
            apply=(Command(argv=(GUEST, "readonly", "act", self.id, self.path)),),
            undo=(Command(argv=(GUEST, "readonly", "restore", self.id)),),
            read=(Command(argv=(GUEST, "readonly", "show", self.id, self.path), name="mount"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Writable before, and not now."""
        was, now = mapping(before, "mount"), mapping(during, "mount")
        act = now.get("act")
        return (
            (was.get("read_only"), was.get("write"), was.get("act")) == (False, "ok", None)
            and (now.get("read_only"), now.get("write")) == (True, "EROFS")
            and isinstance(act, dict)
            and act.get("path") == self.path
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Refused calls."""
        return sum(counted(mapping(after, "mount").get("refused")).values())

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Writable, nothing counts."""
        now = mapping(undone, "mount")
        if not now:
            return not mapping(before, "mount")
        return (now.get("act"), now.get("refused")) == (None, None) and now.get("read_only") is (
            mapping(before, "mount").get("read_only") is True
        )

    def conflicts(self, other: Fault) -> str | None:
        """One mount is read-only once."""
        if isinstance(other, BlockReadonly) and other.path == self.path:
            return f"two block.readonly of {self.path}: the second would find it read-only already"
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What became read-only, who was refused."""
        now = mapping(after, "mount")
        if not now:
            return ()
        refused = numbers(now.get("refused"))
        where = f"{self.path} is on {now.get('source')} ({now.get('kind')}), mounted on {now.get('mount')}"
        return (where, *(f"{process} got EROFS {count} times" for process, count in refused.items()))

    def cannot_know(self) -> tuple[str, ...]:
        """Other file systems."""
        return (
            "calls that got EROFS are counted wherever they were made, also on another file system that is read-only",
        )
