"""`block.delay`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._block import TRACING, BlockFault, met, told
from stormcell.faults._fields import shown
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import Duration

TICK_S = 0.004
LEAST, MOST = 0.008, 300.0


class BlockDelay(BlockFault):
    """A disk answers later: each request waits in the kernel before it goes to the device."""

    kind = "block.delay"
    needs = Needs(modules=("dm-mod", "dm-delay"), paths=(TRACING,))
    counts = "requests in the slow sectors that took at least as long as was asked for, or still wait"
    proves = "the table as the device-mapper shows it, and its own histogram of how long requests took"
    example: ClassVar[dict[str, Any]] = {
        "kind": "block.delay",
        "path": "/var/lib/app",
        "read": "50ms",
        "write": "200ms",
    }

    read: Duration = 0
    """What each read waits; 8ms to 5m in whole milliseconds, or 0s."""
    write: Duration = 0
    """What each write and each flush (fsync) waits; 8ms to 5m, or 0s."""

    @model_validator(mode="after")
    def _sensible(self) -> BlockDelay:
        if not self.read and not self.write:
            raise ValueError("'read' or 'write' is needed: without a delay it does nothing")
        for name, value in (("read", self.read), ("write", self.write)):
            if value and not LEAST <= value <= MOST:
                raise ValueError(f"a {name} delay of {shown(value)} is out of range; it is between 8ms and 5m")
        return self

    @property
    def target(self) -> tuple[str, str]:
        """dm-delay: reads and writes apart."""
        return "delay", f"@disk {round(self.read * 1000)} @disk {round(self.write * 1000)}"

    @property
    def slow_ns(self) -> int:
        """dm-delay waits in ticks of the kernel (4 ms at 250 Hz), the first of which may be nearly over."""
        return round((min(delay for delay in (self.read, self.write) if delay) - TICK_S) * 1e9)

    def acted(self, during: Reading, after: Reading) -> int:
        """Slow ones that are done, and those that wait now."""
        waiting = told(after).get("waiting")
        return max(0, met(after).get("slow", 0) + (waiting if isinstance(waiting, int) else 0))

    def cannot_know(self) -> tuple[str, ...]:
        """Resolution."""
        return (
            *super().cannot_know(),
            "the kernel counts the delay in ticks of 4 ms; the disk's own time comes on top",
        )
