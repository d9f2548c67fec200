"""`net.rate`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._fields import shown
from stormcell.faults._queue import Queue
from stormcell.faults._tc import close, microseconds
from stormcell.spec.fault import Needs
from stormcell.spec.units import BitRate, Duration, Size, size_text

LO_PACKET = 68 << 10
"""lo carries packets of up to 64 KiB; a bucket smaller than a packet lets it never pass."""
LEAST_BURST = 16 << 10
TICKS_PER_SECOND = 250


class Rate(Queue):
    """A link carries only so many bits per second; what waits too long is lost."""

    kind = "net.rate"
    qdisc = "tbf"
    counter = "overlimits"
    needs = Needs(programs=("tc", "ip", "sleep"), modules=("sch_tbf", "sch_prio", "cls_flower", "cls_matchall",
                  "sch_ingress", "act_mirred", "ifb"))  # fmt: skip
    counts = "times that a packet had to wait for the token bucket"
    proves = "the overlimit counter of the tbf qdisc itself (`tc -s qdisc`), with the rate as the kernel shows it"
    example: ClassVar[dict[str, Any]] = {"kind": "net.rate", "device": "lo", "local_port": 8080, "rate": "1mbit"}

    rate: BitRate
    """8kbit to 10gbit."""
    burst: Size | None = None
    """How much may pass at once after a pause. Default: 4 ms of the rate, at least 16KiB, on lo at least 68KiB."""
    queue: Duration = 1.0
    """How long a packet may wait for its turn, 1ms to 1m; those that would wait longer are dropped."""

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
        return self

    @property
    def bucket(self) -> int:
        """Bytes."""
        least = LO_PACKET if "lo" in self.device else LEAST_BURST
        return self.burst or max(least, self.rate // 8 // TICKS_PER_SECOND)

    def discipline(self) -> str:
        """`tbf rate ...`."""
        return f"tbf rate {self.rate}bit burst {self.bucket} latency {microseconds(self.queue)}"

    def idle(self) -> str:
        """So fast that nothing waits."""
        return f"tbf rate 100gbit burst {64 << 20} latency {microseconds(self.queue)}"

    def drain_s(self) -> float:
        """Until the packet whose turn it is may leave; the others follow at once."""
        return 0.05 + self.bucket * 8 / self.rate

    def shows(self, options: dict[str, Any]) -> bool:
        """Rate (bytes per second there), burst and longest wait (microseconds)."""
        return (
            close(options.get("rate"), self.rate / 8, absolute=1.0)
            and close(options.get("burst"), self.bucket, relative=0.05)
            and close(options.get("lat"), self.queue * 1e6, relative=0.05, absolute=100)
        )

    def cannot_know(self) -> tuple[str, ...]:
        """The first burst; packets larger than the bucket."""
        return (
            f"the first {size_text(self.bucket)} after a pause pass at full speed",
            *super().cannot_know(),
        )
