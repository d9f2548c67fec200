"""`file.errno`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults._bpf import (
    NEEDS,
    Errnos,
    MaybeTarget,
    calls,
    explained,
    hooks,
    schema,
    spares_the_system,
    target_words,
)
from stormcell.faults._fields import GuestPath
from stormcell.spec.fault import Command

FILE_CALLS = calls("file")
NAMES = tuple(call.name for call in FILE_CALLS)


class FileErrno(Errnos, MaybeTarget):
    """Operations on a file, or on all below a folder, come back with an errno: EIO, ENOSPC, EROFS, EACCES.

    Decided by programs in the kernel's security hooks (BPF LSM): files that are open already are met too, nothing is
    mounted, and nothing on the disk changes. For whom is said as in syscall.errno; without a target everybody is met.
    """

    kind = "file.errno"
    needs = NEEDS
    counts = "operations that were answered with the errno"
    proves = "the program's own count in the kernel, by process, operation and errno, of what it answered"
    example: ClassVar[dict[str, Any]] = {
        "kind": "file.errno", "path": "/var/lib/postgresql", "operation": ["read", "write"], "errno": "EIO",
        "rate": "5%",
    }  # fmt: skip

    path: GuestPath
    """A file, under whichever name of it, or whatever has that name when it is used; or a folder: it and all below it,
    with the file systems that are mounted there at the act. Found by inode, so a relative path, a descriptor or a
    symbolic link makes no difference."""
    operation: Annotated[tuple[str, ...], *schema(NAMES)] = Field(description=explained(FILE_CALLS))

    @model_validator(mode="after")
    def _spares_the_system(self) -> FileErrno:
        spares_the_system(self.path, self.targeted)
        return self

    def words(self) -> tuple[str, ...]:
        """Whom, which operations, on what."""
        return (*target_words(self), f"call={','.join(self.operation)}", f"path={self.path}")

    def programs(self) -> set[str]:
        """A hook or two for each operation."""
        return hooks(self.operation, self.target[0] if self.targeted else "any")

    def change(self, to: FileErrno) -> tuple[Command, ...] | None:
        """Errno, rate, every and limit."""
        return self.change_amounts(to)

    def cannot_know(self) -> tuple[str, ...]:
        """What has no hook."""
        return (
            "the kernel asks nobody before fsync, close and reads of what is mapped into memory, so these do not fail",
            "pages that were written before are still written back to the disk: no data is lost by this fault",
        )
