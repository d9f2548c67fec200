"""`block.error`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from stormcell.faults._block import TRACING, BlockFault, failed
from stormcell.spec.fault import Needs, Reading


class BlockError(BlockFault):
    """A disk has bad sectors: requests there come back with an error (EIO)."""

    kind = "block.error"
    needs = Needs(modules=("dm-mod", "dm-delay"), paths=(TRACING,))
    counts = "requests that the device answered with an error"
    proves = "the kernel's count of failed requests of that device (block_bio_complete), by process"
    example: ClassVar[dict[str, Any]] = {"kind": "block.error", "path": "/var/lib/app/data.db", "operations": "read"}

    operations: Literal["both", "read", "write"] = "both"
    """Which requests fail. A flush (fsync) counts as a write."""

    @property
    def target(self) -> tuple[str, str]:
        """`error` fails both. dm-delay without a delay sends reads to one device and writes to another."""
        return {
            "both": ("error", ""),
            "read": ("delay", "@error 0 @disk 0"),
            "write": ("delay", "@disk 0 @error 0"),
        }[self.operations]

    def acted(self, during: Reading, after: Reading) -> int:
        """Failed requests."""
        return failed(after)

    def cannot_know(self) -> tuple[str, ...]:
        """What a failed write leaves behind."""
        said = list(super().cannot_know())
        if self.operations != "read":
            said.append(
                "a write that failed is lost, though its page may be read from the cache and a second fsync may succeed"
            )
            said.append("ext4 gives up and goes read-only when its journal meets an error")
        return tuple(said)
