"""`memory.hold`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from stormcell.faults._fields import GuestPath
from stormcell.faults._holders import gone
from stormcell.faults._memory import MemoryTaker
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import Size, size_text

LEAST = 0.9


class MemoryHold(MemoryTaker):
    """So much memory is taken and kept, in the group of a service or beside all of them.

    With a target it is charged to the target's group, whose limit it uses up. The holder is the first victim when the
    kernel has to kill: the score is set before its first page is taken.
    """

    kind = "memory.hold"
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "KiB held, by the kernel's count of the holder's pages of that kind"
    proves = "RssAnon, RssFile, RssShmem or VmLck of the holder, and its cgroup"
    example: ClassVar[dict[str, Any]] = {"kind": "memory.hold", "service": "postgresql", "size": "64MiB"}

    size: Size
    """At least 1MiB."""
    pages: Literal["anon", "file", "shmem", "locked"] = "anon"
    """`anon`: what a program allocates; it can be swapped out. `file`: page cache, which the kernel may take back.
    `shmem`: shared memory, as tmpfs uses. `locked`: never swapped."""
    path: GuestPath = "/var/tmp"
    """For `file`: a folder of the file system whose pages these are. No room on the disk is used."""

    @model_validator(mode="after")
    def _sensible(self) -> MemoryHold:
        if self.size < 1 << 20:
            raise ValueError(f"{size_text(self.size)} is out of range; it is at least 1MiB")
        if self.pages != "file" and self.path != "/var/tmp":
            raise ValueError("'path' is for `pages: file` alone")
        return self

    def work(self) -> tuple[str, ...]:
        """Size in bytes, kind of page."""
        return ("hold", str(self.size), self.pages, self.path)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The kernel counts that much of that kind for the holder, and no more."""
        held = self.held(during, "sc-hold", self.pages)
        return gone(before, "hold") and self.size * LEAST <= held <= self.size / LEAST + (4 << 20)

    def acted(self, during: Reading, after: Reading) -> int:
        """KiB held at the end."""
        return self.held(after, "sc-hold", self.pages) >> 10

    def cannot_know(self) -> tuple[str, ...]:
        """Of page cache."""
        if self.pages != "file":
            return ()
        return ("page cache is taken back by the kernel under pressure: how much was held in between is not known",)
