"""`net.corrupt`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._netem import shows_share
from stormcell.faults._queue import Queue, needs, share
from stormcell.spec.units import Percent

LIMIT = 100_000


class Corrupt(Queue):
    """Packets arrive with one bit flipped."""

    kind = "net.corrupt"
    counter = "packets"
    needs = needs("sch_netem", "nft_numgen")
    counts = "packets that went through the netem qdisc, which flips a bit in each of them"
    proves = (
        "the packet counter of the netem qdisc itself (`tc -s qdisc`), which shows `corrupt 100%` and gets the share "
        "alone that the rule chose (nft counters)"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "net.corrupt", "device": "lo", "remote_port": 9000, "corrupt": "20%"}

    corrupt: Percent
    """Share of the packets that are damaged, from 0.0001%. A rule draws them at random; netem damages each of them."""

    @model_validator(mode="after")
    def _sensible(self) -> Corrupt:
        if self.corrupt < 1e-4:
            raise ValueError(f"a share of {self.corrupt:g}% damages nothing; it is between 0.0001% and 100%")
        return self

    def picks(self) -> tuple[str, tuple[dict[str, Any], ...]]:
        """The share."""
        return share(self.corrupt)

    def discipline(self) -> str:
        """`netem corrupt 100%`: all that the rule chose."""
        return f"netem corrupt 100% 0% limit {LIMIT}"

    def shows(self, options: dict[str, Any]) -> bool:
        """All of them; the share stands in the rule."""
        return shows_share(options, "corrupt", "corrupt", 100.0, 0.0) and "delay" not in options

    def cannot_know(self) -> tuple[str, ...]:
        """What a flipped bit does."""
        return (
            "the bit lies anywhere in the packet's first part, its headers included: most damaged packets fail a "
            "checksum or are for nobody, and look like a loss; a bit that the checksums do not cover passes",
            *super().cannot_know(),
        )
