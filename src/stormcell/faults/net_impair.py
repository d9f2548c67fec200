"""`net.impair`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults import _netem
from stormcell.faults._fields import shown
from stormcell.faults._netem import LARGEST_LIMIT, PACKET, Distribution
from stormcell.faults._queue import Place, Queue, counted, needs
from stormcell.faults._tc import close, percent
from stormcell.spec.fault import Reading
from stormcell.spec.units import BitRate, Duration, Percent

PARTS = ("delay", "loss", "duplicate", "corrupt", "reorder", "rate")


class Impair(Queue):
    """Several things happen to the same packets: any of delay, loss, duplicate, corrupt, reorder and rate."""

    kind = "net.impair"
    counter = "packets"
    needs = needs("sch_netem")
    counts = "packets that netem delayed or paced; without delay and rate, those that it dropped, doubled or sent ahead"
    proves = (
        "the packet, drop and requeue counters of the netem qdisc itself (`tc -s qdisc`) and packets out of it less "
        "packets into it, with every part as the kernel shows it"
    )
    example: ClassVar[dict[str, Any]] = {
        "kind": "net.impair", "device": "lo", "remote_port": 5432, "delay": "80ms", "jitter": "20ms", "loss": "2%"
    }  # fmt: skip

    delay: Duration = 0.0
    """Added to every packet, up to 2m."""
    jitter: Duration = 0.0
    """How far the delay varies around that; at most `delay`."""
    distribution: Distribution = "uniform"
    """How the jitter is distributed: uniform within +-jitter, or a table of tc's."""
    delay_correlation: Percent = 0.0
    """How much a packet's jitter depends on that of the one before."""
    loss: Percent = 0.0
    """Share of the packets that are lost."""
    loss_correlation: Percent = 0.0
    """How much the fate of a packet depends on that of the one before."""
    duplicate: Percent = 0.0
    """Share of the packets that arrive twice."""
    corrupt: Percent = 0.0
    """Share of the packets that arrive with one bit flipped. The kernel does not count these; net.corrupt does."""
    reorder: Percent = 0.0
    """Share of the packets that go ahead of those that are delayed; needs `delay`."""
    gap: int = Field(default=1, strict=True, ge=1, le=1_000_000)
    """With `reorder`: only every nth packet may go ahead."""
    rate: BitRate | None = None
    """Bits per second that the wire carries: 8kbit to 10gbit."""
    queue: Duration = 1.0
    """With `rate`: how long a packet may wait for its turn, 1ms to 1m; the queue has room for that and the delay."""

    @model_validator(mode="after")
    def _sensible(self) -> Impair:
        asked = [part for part in PARTS if getattr(self, part)]
        if len(asked) < 2:
            what = f"only {asked[0]} is asked for; write kind: net.{asked[0]}" if asked else "nothing is asked for"
            raise ValueError(f"{what}, or two or more of {', '.join(PARTS)}")
        if self.delay and not 1e-6 <= self.delay <= 120:
            raise ValueError(f"a delay of {shown(self.delay)} is out of range; it is between 1us and 2m")
        if self.jitter > self.delay:
            raise ValueError(f"the jitter ({shown(self.jitter)}) is larger than the delay ({shown(self.delay)})")
        if not self.jitter and (self.delay_correlation or self.distribution != "uniform"):
            raise ValueError("distribution and delay_correlation describe the jitter; without jitter they do nothing")
        for part in ("loss", "duplicate", "corrupt", "reorder"):
            if 0 < getattr(self, part) < 1e-4:
                raise ValueError(f"'{part}' is too small to happen; it is between 0.0001% and 100%")
        if self.loss_correlation and not self.loss:
            raise ValueError("'loss_correlation' belongs to 'loss', which is not given")
        if self.reorder and not self.delay:
            raise ValueError("'reorder' needs 'delay': who goes ahead overtakes those that are late")
        if self.gap != 1 and not self.reorder:
            raise ValueError("'gap' belongs to 'reorder', which is not given")
        if self.rate is not None and not 8_000 <= self.rate <= 10**10:
            raise ValueError("the rate is out of range; it is between 8kbit and 10gbit")
        if not 1e-3 <= self.queue <= 60:
            raise ValueError(f"a queue of {shown(self.queue)} is out of range; it is between 1ms and 1m")
        return self

    @property
    def longest(self) -> float:
        """Seconds, without the wait for the wire."""
        return _netem.reach(self.delay, self.jitter, self.distribution)

    @property
    def limit(self) -> int:
        """Packets that may wait: for the delay, and for the wire."""
        wire = math.ceil(self.queue * self.rate / 8 / PACKET) if self.rate else 0
        return min(LARGEST_LIMIT, (_netem.room(self.longest) if self.delay or not self.rate else 2) + wire)

    def discipline(self) -> str:
        """`netem ...`."""
        return " ".join(["netem", *self._parts(), f"limit {self.limit}"])

    def drain_s(self) -> float:
        """The longest delay, and the queue before the wire."""
        return self.longest + (self.queue if self.rate else 0.0)

    def shows(self, options: dict[str, Any]) -> bool:
        """Every part that was asked for, and no other."""
        shares = (("loss", self.loss, self.loss_correlation), ("duplicate", self.duplicate, 0.0),
                  ("corrupt", self.corrupt, 0.0), ("reorder", self.reorder, 0.0))  # fmt: skip
        rate = options.get("rate")
        paced = isinstance(rate, dict) and close(rate.get("rate"), (self.rate or 0) / 8, absolute=1.0)
        return (
            _netem.shows_delay(options, self.delay, self.jitter, self.delay_correlation)
            and all(
                _netem.shows_share(options, "loss-random" if name == "loss" else name, name, share, correlation)
                for name, share, correlation in shares
            )
            and (paced if self.rate else rate is None)
            and (not self.reorder or options.get("gap") == self.gap)
            and options.get("limit") == self.limit
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Every packet when all are delayed or paced, else those of the parts that are counted."""
        if self.delay or self.rate:
            return sum(counted(after, p, "packets") + counted(after, p, "drops") for p in self.places())
        return sum(sum(self._counted(after, place).values()) for place in self.places())

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Each part, as far as the kernel counts it."""
        said = []
        for place in self.places() if after else ():
            counts = ", ".join(f"{count} {what}" for what, count in self._counted(after, place).items())
            said += [f"{place.way} on {place.device}: {counts}"] if counts else []
            if after and not self.loss and not self.rate and counted(after, place, "drops"):
                said.append(f"{place.way} on {place.device}: the drops were not asked for, the queue was full")
        said += ["the kernel does not count the packets that netem damages"] if self.corrupt and after else []
        return (*super().notes(before, during, after), *said)

    def _counted(self, after: Reading | None, place: Place) -> dict[str, int]:
        if after is None:
            return {}
        drops = counted(after, place, "drops")
        more = self.left(after, place) + drops + counted(after, place, "qlen") - self.entered(after, place)
        found = {"lost": drops} if self.loss else {}
        found |= {"doubled": max(0, more)} if self.duplicate else {}
        found |= {"sent ahead": counted(after, place, "requeues")} if self.reorder else {}
        return found

    def _parts(self) -> Iterator[str]:
        if self.delay:
            yield _netem.delay(self.delay, self.jitter, self.delay_correlation, self.distribution)
        if self.loss:
            yield f"loss {percent(self.loss)} {percent(self.loss_correlation)}"
        if self.duplicate:
            yield f"duplicate {percent(self.duplicate)}"
        if self.corrupt:
            yield f"corrupt {percent(self.corrupt)} 0%"
        if self.reorder:
            yield f"reorder {percent(self.reorder)} 0% gap {self.gap}"
        if self.rate:
            yield f"rate {self.rate}bit"
