"""`net.duplicate`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._netem import shows_share
from stormcell.faults._queue import Queue, counted, needs, share
from stormcell.spec.fault import Reading
from stormcell.spec.units import Percent

LIMIT = 100_000


class Duplicate(Queue):
    """Packets arrive twice."""

    kind = "net.duplicate"
    counter = "packets"
    needs = needs("sch_netem", "nft_numgen")
    counts = "packets that left the queue more than had entered it"
    proves = (
        "packets that came out of the netem qdisc (the ifb device's counter) less those that the rule sent in "
        "(nft counters), with the share as the kernel shows it"
    )
    example: ClassVar[dict[str, Any]] = {
        "kind": "net.duplicate", "device": "lo", "remote_port": 9000, "duplicate": "20%"
    }  # fmt: skip

    duplicate: Percent
    """Share of the packets that arrive twice, from 0.0001%. A rule draws them at random; netem doubles each of them."""

    @model_validator(mode="after")
    def _sensible(self) -> Duplicate:
        if self.duplicate < 1e-4:
            raise ValueError(f"a share of {self.duplicate:g}% doubles nothing; it is between 0.0001% and 100%")
        return self

    def picks(self) -> tuple[str, tuple[dict[str, Any], ...]]:
        """The share."""
        return share(self.duplicate)

    def discipline(self) -> str:
        """`netem duplicate 100%`: all that the rule chose."""
        return f"netem duplicate 100% limit {LIMIT}"

    def shows(self, options: dict[str, Any]) -> bool:
        """All of them; the share stands in the rule."""
        return shows_share(options, "duplicate", "duplicate", 100.0, 0.0) and "delay" not in options

    def acted(self, during: Reading, after: Reading) -> int:
        """What came out (or still waits, or was dropped) less what went in."""
        return sum(
            max(0, self.left(after, place) + counted(after, place, "drops") - self.entered(after, place))
            for place in self.places()
        )
