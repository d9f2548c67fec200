"""`dns.drop`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Devices
from stormcell.faults._network import Family, Match, Way
from stormcell.faults._table import BlackHole
from stormcell.spec.fault import Needs

QUERIES = (("udp", 53), ("tcp", 53), ("tcp", 853))


class DnsDrop(BlackHole):
    """Name servers do not answer: queries over UDP, TCP and TLS, IPv4 and IPv6, vanish on their way out."""

    kind = "dns.drop"
    needs = Needs(programs=("nft", "ip"), modules=("nf_tables", "nft_fwd_netdev", "dummy"))
    counts = "DNS packets dropped by the rules"
    proves = "the packet counter of every single rule, by device, family, protocol and port (`nft list ruleset`)"
    example: ClassVar[dict[str, Any]] = {"kind": "dns.drop"}

    devices: Devices = ("lo", "eth0")
    """The devices on which queries are dropped; lo carries those to a resolver in the same machine."""

    @property
    def edges(self) -> tuple[str, ...]:
        """The devices."""
        return self.devices

    @property
    def ways(self) -> tuple[Way, ...]:
        """Queries leave."""
        return ("out",)

    def packets(self) -> tuple[Match | None, ...]:
        """Every way to ask but HTTPS."""
        families: tuple[Family, ...] = ("ip", "ip6")
        return tuple(Match(f, protocol, None, port, None) for f in families for protocol, port in QUERIES)

    def cannot_know(self) -> tuple[str, ...]:
        """Caches and DNS over HTTPS."""
        return (
            "DNS over HTTPS is not covered: it looks like any other HTTPS",
            "names from /etc/hosts and from caches (nscd, a resolver in the process) need no query and still resolve",
        )
