"""`net.delay`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults import _netem
from stormcell.faults._fields import shown
from stormcell.faults._netem import Distribution
from stormcell.faults._queue import LONGEST_DRAIN, Place, Queue, counted, needs
from stormcell.spec.fault import Reading
from stormcell.spec.units import Duration, Percent


class Delay(Queue):
    """Packets arrive later."""

    kind = "net.delay"
    counter = "packets"
    needs = needs("sch_netem")
    counts = "packets that left the netem queue after their delay"
    proves = (
        "the packet counter of the netem qdisc itself (`tc -s qdisc`), with delay and jitter as the kernel shows them"
    )
    example: ClassVar[dict[str, Any]] = {
        "kind": "net.delay", "device": "lo", "remote_port": 5432, "delay": "300ms", "jitter": "50ms"
    }  # fmt: skip

    delay: Duration
    """Added to every packet, 1us to 2m."""
    jitter: Duration = 0.0
    """How far the delay varies around that; at most `delay`."""
    distribution: Distribution = "uniform"
    """How the jitter is distributed: uniform within +-jitter, or a table of tc's."""
    correlation: Percent = 0.0
    """How much a packet's jitter depends on that of the one before."""

    @model_validator(mode="after")
    def _sensible(self) -> Delay:
        if not 1e-6 <= self.delay <= 120:
            raise ValueError(f"a delay of {shown(self.delay)} is out of range; it is between 1us and 2m")
        if self.jitter > self.delay:
            raise ValueError(f"the jitter ({shown(self.jitter)}) is larger than the delay ({shown(self.delay)})")
        if not self.jitter and (self.correlation or self.distribution != "uniform"):
            raise ValueError("distribution and correlation describe the jitter; without jitter they do nothing")
        return self

    @property
    def longest(self) -> float:
        """Seconds."""
        return _netem.reach(self.delay, self.jitter, self.distribution)

    @property
    def limit(self) -> int:
        """Packets that may wait."""
        return _netem.room(self.longest)

    def discipline(self) -> str:
        """`netem delay ...`."""
        delay = _netem.delay(self.delay, self.jitter, self.correlation, self.distribution)
        return f"netem {delay} limit {self.limit}"

    def drain_s(self) -> float:
        """The longest delay."""
        return self.longest

    def shows(self, options: dict[str, Any]) -> bool:
        """Delay, jitter, correlation, and room enough that the delay does not lose packets."""
        return (
            _netem.shows_delay(options, self.delay, self.jitter, self.correlation)
            and options.get("limit") == self.limit
            and "loss-random" not in options
        )

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Losses that nobody asked for, by name."""
        lost = [place for place in self.places() if after and counted(after, place, "drops")]
        return (*super().notes(before, during, after), *map(self._unwanted, lost))

    def cannot_know(self) -> tuple[str, ...]:
        """Round trips, reordering, the table."""
        said = ["every packet is late on its own: a new TCP connection with one request pays for two round trips"]
        if self.jitter:
            said.append("jitter lets packets overtake each other, so TCP also sees reordering")
        if self.distribution != "uniform":
            said.append(f"the kernel does not show its distribution table, so '{self.distribution}' is not read back")
        if self.longest > LONGEST_DRAIN:
            said.append(f"packets that would be late by more than {LONGEST_DRAIN:g} s at the undo are lost with it")
        return (*said, *super().cannot_know())

    def _unwanted(self, place: Place) -> str:
        return (
            f"{place.way} on {place.device}: the drops were not asked for, the queue of {self.limit} packets was full"
        )
