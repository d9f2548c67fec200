"""`net.reorder`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults import _netem
from stormcell.faults._fields import shown
from stormcell.faults._queue import Queue, needs
from stormcell.faults._tc import percent
from stormcell.spec.units import Duration, Percent


class Reorder(Queue):
    """Packets overtake others: all are late, and a share of them goes ahead at once."""

    kind = "net.reorder"
    counter = "requeues"
    needs = needs("sch_netem")
    counts = "packets that netem put at the head of its queue"
    proves = (
        "the requeue counter of the netem qdisc itself (`tc -s qdisc`), which netem raises for each packet that it "
        "sends ahead, with share, gap and delay as the kernel shows them"
    )
    example: ClassVar[dict[str, Any]] = {
        "kind": "net.reorder", "device": "lo", "remote_port": 9000, "reorder": "25%", "delay": "20ms"
    }  # fmt: skip

    reorder: Percent
    """Share of the packets (of every `gap`th, if that is set) that go ahead, from 0.0001%."""
    delay: Duration
    """How late the others are, 1us to 2m: how far a packet can go ahead."""
    gap: int = Field(default=1, strict=True, ge=1, le=1_000_000)
    """Only every nth packet may go ahead: with 100% exactly every nth does."""
    correlation: Percent = 0.0
    """How much the fate of a packet depends on that of the one before."""

    @model_validator(mode="after")
    def _sensible(self) -> Reorder:
        if self.reorder < 1e-4:
            raise ValueError(f"a share of {self.reorder:g}% reorders nothing; it is between 0.0001% and 100%")
        if not 1e-6 <= self.delay <= 120:
            raise ValueError(f"a delay of {shown(self.delay)} is out of range; it is between 1us and 2m")
        if self.reorder == 100 and self.gap == 1:
            raise ValueError("when every packet goes ahead none is overtaken; lower 'reorder' or raise 'gap'")
        return self

    def discipline(self) -> str:
        """`netem delay ... reorder ...`."""
        delay = _netem.delay(self.delay, 0.0, 0.0, "uniform")
        order = f"reorder {percent(self.reorder)} {percent(self.correlation)} gap {self.gap}"
        return f"netem {delay} {order} limit {_netem.room(self.delay)}"

    def drain_s(self) -> float:
        """The delay."""
        return self.delay

    def shows(self, options: dict[str, Any]) -> bool:
        """Delay, share, correlation and gap."""
        return (
            _netem.shows_delay(options, self.delay, 0.0, 0.0)
            and _netem.shows_share(options, "reorder", "reorder", self.reorder, self.correlation)
            and options.get("gap") == self.gap
            and options.get("limit") == _netem.room(self.delay)
        )

    def cannot_know(self) -> tuple[str, ...]:
        """A packet that has nobody to overtake."""
        return (
            "a packet that goes ahead while no other waits is early by the delay, and overtakes nobody",
            *super().cannot_know(),
        )
