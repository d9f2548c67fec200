"""`block.corrupt`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from stormcell.faults._block import TRACING, BlockFault, met
from stormcell.spec.fault import Needs, Reading


class BlockCorrupt(BlockFault):
    """A disk returns or stores a wrong byte, without an error.

    For reads, the bad blocks are copied at the act with one byte of each wrong, and read from there; what is written
    meanwhile goes to the disk and is seen after the undo. (The kernel's own `corrupt_bio_byte` does nothing to reads
    on Linux 6.1: when a request comes back, dm-flakey walks over what is left of it, which is nothing.)
    """

    kind = "block.corrupt"
    needs = Needs(modules=("dm-mod", "dm-flakey", "dm-delay", "loop"), paths=(TRACING,))
    counts = "requests of that direction in the bad blocks, each of which has a wrong byte"
    proves = "the table as the kernel shows it, and the device-mapper's count of requests in those sectors"
    example: ClassVar[dict[str, Any]] = {"kind": "block.corrupt", "path": "/var/lib/app/data.db", "byte": 100}

    operations: Literal["read", "write"] = "read"
    """`read`: the disk is right and what is read is wrong. `write`: the disk gets the wrong byte and keeps it."""
    byte: Annotated[int, Field(strict=True, ge=1, le=4096)] = 1
    """Which one, from 1: when reading, of each block of 4 KiB; when writing, of each request, however long."""
    value: Annotated[int, Field(strict=True, ge=0, le=255)] | None = None
    """What it becomes. Not given: when reading, it is inverted; when writing, 0."""

    @property
    def target(self) -> tuple[str, str]:
        """A copy for the reads; for the writes dm-flakey, never up."""
        if self.operations == "read":
            return "delay", f"@shadow:{self.byte}:{'inverted' if self.value is None else self.value} 0 @disk 0"
        return "flakey", f"@disk 0 1 5 corrupt_bio_byte {self.byte} w {self.value or 0} 0"

    def acted(self, during: Reading, after: Reading) -> int:
        """As many requests as there were."""
        return met(after).get(f"{self.operations}s", 0)

    def cannot_know(self) -> tuple[str, ...]:
        """Whether it differed, what stays."""
        said = [] if self.value is None and self.operations == "read" else [
            "a byte that had the value already is not changed by the fault"
        ]  # fmt: skip
        if self.operations == "write":
            said.append("which byte of a file it is depends on how the kernel cuts its requests")
            said.append("what was stored wrong stays wrong after the undo")
        else:
            said.append("bad blocks that are written and read again under the fault show their old content")
        return (*super().cannot_know(), *said)
