"""`block.drop-writes`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._block import TRACING, BlockFault, told
from stormcell.faults._reading import numbers
from stormcell.spec.fault import Needs, Reading


class BlockDropWrites(BlockFault):
    """A disk lies: it says that a write is done, and throws it away; a flush is answered the same way."""

    kind = "block.drop-writes"
    needs = Needs(modules=("dm-mod", "dm-flakey"), paths=(TRACING,))
    counts = "sectors of 512 bytes that the device acknowledged and that never reached the disk beneath it"
    proves = "the kernel's write counts of the device and of the disk beneath it, which differ"
    example: ClassVar[dict[str, Any]] = {"kind": "block.drop-writes", "path": "/var/lib/app"}

    @property
    def target(self) -> tuple[str, str]:
        """dm-flakey, never up."""
        return "flakey", "@disk 0 1 1 drop_writes"

    def acted(self, during: Reading, after: Reading) -> int:
        """Acknowledged and not written."""
        now = told(after)
        act = now.get("act")
        then, last = (
            _written(stats) for stats in (act.get("at_act") if isinstance(act, dict) else None, now.get("stats"))
        )
        if then is None or last is None:
            return 0
        return max(0, (last[0] - then[0]) - (last[1] - then[1]))

    def cannot_know(self) -> tuple[str, ...]:
        """Who finds out."""
        return (
            *super().cannot_know(),
            "the file system has its own metadata in memory and may find out only after the undo, "
            "when it meets old blocks on the disk",
        )


def _written(stats: Any) -> tuple[int, int] | None:
    if not isinstance(stats, dict):
        return None
    found = [numbers(stats.get(name)).get("write_sectors") for name in ("device", "disk")]
    return (found[0], found[1]) if found[0] is not None and found[1] is not None else None
