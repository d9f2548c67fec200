"""`net.slot`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults import _netem
from stormcell.faults._fields import shown
from stormcell.faults._queue import Queue, needs
from stormcell.faults._tc import close, microseconds
from stormcell.spec.units import Duration, Size


class Slot(Queue):
    """Packets gather and leave together in slots, as over Wi-Fi, cable or satellite."""

    kind = "net.slot"
    counter = "packets"
    needs = needs("sch_netem")
    counts = "packets that left the netem queue in a slot"
    proves = "the packet counter of the netem qdisc itself (`tc -s qdisc`), with the slot as the kernel shows it"
    example: ClassVar[dict[str, Any]] = {
        "kind": "net.slot", "device": "lo", "remote_port": 9000, "every": "50ms", "at_most": "80ms", "slot_packets": 4
    }  # fmt: skip

    every: Duration
    """Time from one slot to the next, 100us to 1m; with `at_most` the shortest."""
    at_most: Duration | None = None
    """The longest time from one slot to the next; it varies between both. Default: as `every`."""
    slot_packets: int = Field(default=0, strict=True, ge=0, le=1_000_000)
    """Packets that may leave in one slot. 0: all that are there."""
    slot_bytes: Size = 0
    """Bytes that may leave in one slot. 0: all that are there."""

    @model_validator(mode="after")
    def _sensible(self) -> Slot:
        if not 1e-4 <= self.every <= 60:
            raise ValueError(f"a slot every {shown(self.every)} is out of range; it is between 100us and 1m")
        if self.at_most is not None and not self.every <= self.at_most <= 60:
            raise ValueError(f"'at_most' ({shown(self.at_most)}) is between 'every' ({shown(self.every)}) and 1m")
        if self.slot_bytes and not 1500 <= self.slot_bytes <= 1 << 30:
            raise ValueError("'slot_bytes' is between 1500B (a packet has to fit) and 1GiB")
        return self

    @property
    def longest(self) -> float:
        """Seconds."""
        return self.every if self.at_most is None else self.at_most

    @property
    def limit(self) -> int:
        """Packets that may wait."""
        return _netem.room(max(1.0, 4 * self.longest))

    def discipline(self) -> str:
        """`netem slot ...`."""
        words = ["netem slot", microseconds(self.every), microseconds(self.longest)]
        words += ["packets", str(self.slot_packets), "bytes", str(self.slot_bytes), "limit", str(self.limit)]
        return " ".join(words)

    def drain_s(self) -> float:
        """One slot."""
        return 2 * self.longest

    def shows(self, options: dict[str, Any]) -> bool:
        """Both times, packets, bytes."""
        slot = options.get("slot")
        return (
            isinstance(slot, dict)
            and close(slot.get("min-delay"), self.every)
            and close(slot.get("max-delay"), self.longest)
            and slot.get("packets") == self.slot_packets
            and slot.get("bytes") == self.slot_bytes
            and options.get("limit") == self.limit
            and "delay" not in options
        )
