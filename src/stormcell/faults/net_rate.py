"""`net.rate`."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from stormcell.faults._fields import shown
from stormcell.faults._netem import LARGEST_LIMIT, PACKET
from stormcell.faults._queue import Queue, counted, needs
from stormcell.faults._tc import close, microseconds
from stormcell.spec.fault import Reading
from stormcell.spec.units import BitRate, Duration, Size, size_text

LO_PACKET = 68 << 10
"""lo carries packets of up to 64 KiB; a bucket smaller than a packet lets it never pass."""
LEAST_BURST = 16 << 10
TICKS_PER_SECOND = 250
_TBF, _NETEM = ("burst",), ("queue_packets", "packet_overhead", "cell_size", "cell_overhead")


class Rate(Queue):
    """A link carries only so many bits per second; what waits too long is lost."""

    kind = "net.rate"
    counter = "overlimits"
    needs = needs("sch_tbf", "sch_netem")
    counts = "times that a packet had to wait for the token bucket; with netem, packets that were paced"
    proves = (
        "the overlimit counter of the tbf qdisc itself, or the packet counter of netem (`tc -s qdisc`), with the rate "
        "as the kernel shows it"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "net.rate", "device": "lo", "local_port": 8080, "rate": "1mbit"}

    rate: BitRate
    """8kbit to 10gbit."""
    shaper: Literal["tbf", "netem"] = "tbf"
    """`tbf`: a token bucket, which lets a burst pass after a pause. `netem`: a wire, on which every packet takes its
    time."""
    burst: Size | None = None
    """tbf: how much may pass at once after a pause. Default: 4 ms of the rate, at least 16KiB, on lo at least 68KiB."""
    queue: Duration = 1.0
    """How long a packet may wait for its turn, 1ms to 1m; those that would wait longer are dropped. netem counts
    packets: as many as pass in that time, of 1514 bytes each."""
    queue_packets: int | None = Field(default=None, strict=True, ge=1, le=LARGEST_LIMIT)
    """netem: how many packets may wait, instead of `queue`."""
    packet_overhead: int = Field(default=0, strict=True, ge=-1500, le=1500)
    """netem: bytes that each packet takes on the wire beside its own."""
    cell_size: int = Field(default=0, strict=True, ge=0, le=65535)
    """netem: packets travel in cells of so many bytes (ATM: 48). 0: they do not."""
    cell_overhead: int = Field(default=0, strict=True, ge=0, le=1500)
    """netem: bytes that each cell takes beside its own (ATM: 5)."""

    @model_validator(mode="after")
    def _sensible(self) -> Rate:
        if not 8_000 <= self.rate <= 10**10:
            raise ValueError("the rate is out of range; it is between 8kbit and 10gbit")
        if self.burst is not None and not 2048 <= self.burst <= 64 << 20:
            raise ValueError(f"a burst of {size_text(self.burst)} is out of range; it is between 2KiB and 64MiB")
        if "lo" in self.device and self.burst is not None and self.burst < LO_PACKET:
            raise ValueError("lo carries packets of up to 64KiB: its burst is at least 68KiB, or they never pass")
        if not 1e-3 <= self.queue <= 60:
            raise ValueError(f"a queue of {shown(self.queue)} is out of range; it is between 1ms and 1m")
        if self.bucket * 8 / self.rate > 250:  # tc keeps the time to fill the bucket in 32 bits of 64 ns
            raise ValueError(
                f"a burst of {size_text(self.bucket)} takes too long to fill at this rate; make it smaller"
            )
        for name in _NETEM if self.shaper == "tbf" else _TBF:
            if getattr(self, name):
                other = "netem" if self.shaper == "tbf" else "tbf"
                raise ValueError(f"'{name}' is a parameter of the other shaper; write shaper: {other}")
        if self.cell_overhead and not self.cell_size:
            raise ValueError("'cell_overhead' belongs to 'cell_size', which is not given")
        return self

    @property
    def bucket(self) -> int:
        """Bytes."""
        least = LO_PACKET if "lo" in self.device else LEAST_BURST
        return self.burst or max(least, self.rate // 8 // TICKS_PER_SECOND)

    @property
    def limit(self) -> int:
        """Packets that may wait in netem."""
        return self.queue_packets or min(LARGEST_LIMIT, max(2, math.ceil(self.queue * self.rate / 8 / PACKET)))

    def discipline(self) -> str:
        """`tbf rate ...`, or `netem rate ...`."""
        if self.shaper == "tbf":
            return f"tbf rate {self.rate}bit burst {self.bucket} latency {microseconds(self.queue)}"
        wire = f"{self.packet_overhead} {self.cell_size} {self.cell_overhead}"
        return f"netem rate {self.rate}bit {wire} limit {self.limit}"

    def idle(self) -> str:
        """So fast that nothing waits. In netem a packet has its time when it comes."""
        return f"tbf rate 100gbit burst {64 << 20} latency {microseconds(self.queue)}" if self.shaper == "tbf" else ""

    def drain_s(self) -> float:
        """Until the packet whose turn it is may leave, and the others follow at once; in netem all take their time."""
        return 0.05 + (self.bucket * 8 / self.rate if self.shaper == "tbf" else self.limit * PACKET * 8 / self.rate)

    def shows(self, options: dict[str, Any]) -> bool:
        """Rate (bytes per second there), burst and longest wait (microseconds), or the wire and its queue."""
        if self.shaper == "netem":
            wire = {"packetoverhead": self.packet_overhead, "cellsize": self.cell_size}
            wire["celloverhead"] = self.cell_overhead
            rate = options.get("rate")
            return (
                isinstance(rate, dict)
                and close(rate.get("rate"), self.rate / 8, absolute=1.0)
                and all(rate.get(name) == value for name, value in wire.items())
                and options.get("limit") == self.limit
            )
        return (
            close(options.get("rate"), self.rate / 8, absolute=1.0)
            and close(options.get("burst"), self.bucket, relative=0.05)
            and close(options.get("lat"), self.queue * 1e6, relative=0.05, absolute=100)
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """netem has no counter of those that waited: each of its packets took its time."""
        if self.shaper == "tbf":
            return super().acted(during, after)
        return sum(counted(after, place, "packets") for place in self.places())

    def cannot_know(self) -> tuple[str, ...]:
        """The first burst; packets larger than the bucket."""
        said = [f"the first {size_text(self.bucket)} after a pause pass at full speed"] if self.shaper == "tbf" else []
        return (*said, *super().cannot_know())
