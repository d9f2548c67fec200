"""`file.corrupt`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults._bpf import DESCENT, NEEDS, MaybeTarget, Programs, spares_the_system, target_words
from stormcell.faults._fields import GuestPath
from stormcell.spec.fault import Command


class FileCorrupt(Programs, MaybeTarget):
    """What is read from a file, or from all files below a folder, arrives with flipped bits.

    A program in the kernel changes the reader's memory when the call is over: files that are open already are met,
    nothing is mounted, and what is on the disk and in the page cache stays right. For whom is said as in syscall.errno;
    without a target everybody is met.
    """

    kind = "file.corrupt"
    needs = NEEDS
    counts = "reads that were answered with changed data"
    proves = "the program's own count in the kernel, by process, of reads whose data it changed"
    example: ClassVar[dict[str, Any]] = {
        "kind": "file.corrupt", "path": "/var/lib/postgresql", "service": "postgresql", "rate": "1%",
    }  # fmt: skip

    path: GuestPath
    """A file, under whichever name of it, or whatever has that name when it is used; or a folder: all files below it,
    with the file systems that are mounted there at the act."""
    bytes: Annotated[int, Field(strict=True, ge=1, le=64)] = 1
    """How many bytes of each such read are changed: next to each other, from a random one on, one bit in each."""

    @model_validator(mode="after")
    def _spares_the_system(self) -> FileCorrupt:
        spares_the_system(self.path, self.targeted)
        return self

    @property
    def object(self) -> str:
        """The programs at the end of reads."""
        return "corrupt"

    def words(self) -> tuple[str, ...]:
        """Whom, on what, how much."""
        return (*target_words(self), "call=read", f"path={self.path}", f"bytes={self.bytes}")

    def programs(self) -> set[str]:
        """At the end of read and readv."""
        by_set = self.targeted and self.target[0] in ("main", "pid", "name", "port", "user")
        return {"vfs_read", "vfs_readv", *(DESCENT if by_set else ())}

    def change(self, to: FileCorrupt) -> tuple[Command, ...] | None:
        """Rate, every and limit."""
        return self.change_amounts(to)

    def cannot_know(self) -> tuple[str, ...]:
        """What is not met."""
        return (
            "read, pread and the first buffer of readv are met; what is mapped into memory, sent by the kernel itself "
            "(sendfile, splice, copy_file_range) or read through io_uring arrives as it is",
        )
