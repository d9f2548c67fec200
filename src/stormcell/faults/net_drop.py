"""`net.drop`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._network import Match
from stormcell.faults._partition import Partition
from stormcell.faults._table import BlackHole, everything
from stormcell.spec.fault import Needs


class Drop(Partition, BlackHole):
    """Packets vanish: a dark peer, a cut cable, a partition. Nobody is told."""

    kind = "net.drop"
    needs = Needs(programs=("nft", "tc"), modules=("nf_tables", "nft_fwd_netdev", "dummy", "sch_ingress",
                                                   "cls_matchall"))  # fmt: skip
    counts = "packets dropped by the rules"
    proves = "the packet counter of every single rule, by device, direction and family (`nft list ruleset`)"
    example: ClassVar[dict[str, Any]] = {
        "kind": "net.drop", "device": "eth0", "direction": "both", "address": ["10.0.2.2", "fec0::2"]
    }  # fmt: skip

    @property
    def edges(self) -> tuple[str, ...]:
        """The devices."""
        return self.device

    def packets(self) -> tuple[Match | None, ...]:
        """What the filter says, or everything."""
        return self.matches() or tuple(everything())

    def cannot_know(self) -> tuple[str, ...]:
        """TCP needs both directions."""
        said = []
        if self.direction != "both" and self.connections == "all" and self.protocol in (None, "tcp"):
            said.append(
                "TCP needs both directions: to cut one of them already stops every connection that uses it; for a "
                "partition of one way write connections: new"
            )
        return (*said, *self.about_traffic())
