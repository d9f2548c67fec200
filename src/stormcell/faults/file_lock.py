"""`file.lock`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from stormcell.faults._fields import GuestPath, Placed
from stormcell.faults._reading import mapping, mappings
from stormcell.faults._target import listed, pid_of
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading


class FileLock(Placed):
    """A stale lock: somebody holds a lock on a file and does not let go. Who wants it waits, or gets EAGAIN."""

    kind = "file.lock"
    needs = Needs(paths=("/sys/kernel/tracing/events/filelock/flock_lock_inode/trigger",))
    counts = "requests for a lock of that file that the kernel refused or put into the queue because of ours"
    proves = "our holder in /proc/locks, and the kernel's own results of lock requests for that inode, by process"
    example: ClassVar[dict[str, Any]] = {"kind": "file.lock", "path": "/var/lib/app/LOCK"}

    path: GuestPath
    """A file that is there."""
    how: Literal["flock", "fcntl"] = "flock"
    """Which of the two kinds of lock, of which neither sees the other. SQLite and LevelDB use fcntl."""
    shared: bool = False
    """A lock for reading: others may have such a one too, but none for writing."""

    def plan(self) -> Act:
        """A holder of ours."""
        mode = "shared" if self.shared else "exclusive"
        return Act(
            apply=(Command(argv=(GUEST, "lock", "hold", self.id, self.path, self.how, mode)),),
            undo=(Command(argv=(GUEST, "lock", "release", self.id)),),
            read=(Command(argv=(GUEST, "lock", "show", self.id, self.path), name="lock"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Our holder has that lock on that file, by the kernel's list."""
        was, now = mapping(before, "lock"), mapping(during, "lock")
        act = now.get("act")
        if not was or was.get("act") is not None or not isinstance(act, dict) or act.get("path") != self.path:
            return False
        ours = {pid_of(holder) for holder in listed(now.get("holders"))}
        kind, mode = {"flock": "flock", "fcntl": "posix"}[self.how], "read" if self.shared else "write"
        return now.get("inode") == was.get("inode") and any(
            (lock.get("kind"), lock.get("mode"), lock.get("waits")) == (kind, mode, False) and lock.get("pid") in ours
            for lock in mappings(now.get("locks"))
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Refused or waiting."""
        counts = [entry.get("count") for entry in mappings(mapping(after, "lock").get("met"))]
        return sum(count for count in counts if isinstance(count, int))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """No holder, nothing counts."""
        now = mapping(undone, "lock")
        if not now:
            return not mapping(before, "lock")
        return (now.get("act"), now.get("met"), now.get("holders")) == (None, None, [])

    def conflicts(self, other: Fault) -> str | None:
        """The second would not get it."""
        if not isinstance(other, FileLock) or (other.path, other.how) != (self.path, self.how):
            return None
        return None if self.shared and other.shared else f"two locks on {self.path}: the second cannot be had"

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who met it."""
        now = mapping(after, "lock")
        said = []
        for entry in mappings(now.get("met")):
            what = "was refused (EAGAIN)" if entry.get("result") == "EAGAIN" else "had to wait"
            said.append(f"{entry.get('process')} {what} {entry.get('count')} times")
        waiting = [str(lock.get("pid")) for lock in mappings(now.get("locks")) if lock.get("waits") is True]
        return (*said, f"still waiting before the undo: {', '.join(waiting)}") if waiting else tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """Who had it."""
        return ("a lock that the target had taken before cannot be taken from it: then the act fails",)
