"""What the network faults share: which packets, on which devices, in which direction."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import model_validator

from stormcell.faults._fields import Addresses, Devices, HostNames, Placed, Port

Direction = Literal["out", "in", "both"]
Way = Literal["out", "in"]
Family = Literal["ip", "ip6"]
FAMILIES: tuple[Family, ...] = ("ip", "ip6")
HOST_SET = {"ip": "@host_ip", "ip6": "@host_ip6"}
"""In place of an address: the set that holds what the host names mean."""


@dataclass(frozen=True)
class Match:
    """One kind of packet, as one classifier or rule can name it. `port` fields are None where any will do."""

    family: Family
    protocol: str | None
    address: str | None
    remote_port: int | None
    local_port: int | None

    def ends(self, way: Way) -> dict[str, str | int]:
        """`dst`/`src` address and `dport`/`sport`: the remote end is the destination of what goes out."""
        there, here = ("dst", "src") if way == "out" else ("src", "dst")
        ends: dict[str, str | int] = {}
        if self.address:
            ends[there] = self.address
        for side, port in ((there, self.remote_port), (here, self.local_port)):
            if port is not None:
                ends[f"{side[0]}port"] = port
        return ends

    def label(self, way: Way, device: str) -> str:
        """A name for its rule, unique within a fault."""
        ends = [f"{key} {value}" for key, value in self.ends(way).items()]
        return " ".join([way, device, self.family, *([self.protocol] if self.protocol else []), *ends])


class Traffic(Placed):
    """The part of a fault that says which packets it means. Without a filter it is every packet of the device."""

    device: Devices = ("eth0",)
    """The network device, or a list of them."""
    direction: Direction = "out"
    """`out`: what the device sends. `in`: what it receives. `both`: both, so a round trip meets the fault twice."""
    address: Addresses = ()
    """Only packets to (out) or from (in) these addresses or networks, IPv4 or IPv6."""
    host: HostNames = ()
    """Only packets to or from what these names mean in the guest, IPv4 and IPv6: looked up at the act and every
    second of the fault; an address that comes new is met too."""
    remote_port: Port | None = None
    """Only packets whose peer has this port: destination port of what goes out, source port of what comes in."""
    local_port: Port | None = None
    """Only packets whose end in this machine has this port."""
    protocol: Literal["tcp", "udp", "icmp"] | None = None
    """Only this protocol (icmp: ICMP and ICMPv6). A port without a protocol means TCP and UDP."""

    @model_validator(mode="after")
    def _icmp_has_no_ports(self) -> Traffic:
        if self.protocol == "icmp" and (self.remote_port or self.local_port):
            raise ValueError("icmp has no ports; drop remote_port and local_port, or choose tcp or udp")
        return self

    @property
    def ways(self) -> tuple[Way, ...]:
        """The directions, one by one."""
        return ("out", "in") if self.direction == "both" else (self.direction,)

    @property
    def filtered(self) -> bool:
        """Not every packet of the device."""
        return bool(self.address or self.host or self.remote_port or self.local_port or self.protocol)

    def matches(self) -> tuple[Match, ...]:
        """The filter as single matches: one for each family, protocol and address. Empty without a filter."""
        if not self.filtered:
            return ()
        ported = self.remote_port or self.local_port
        protocols = (self.protocol,) if self.protocol or not ported else ("tcp", "udp")
        places: list[tuple[Family, str | None]] = [(family_of(a), a) for a in self.address]
        places += [(family, HOST_SET[family]) for family in FAMILIES if self.host]
        return tuple(
            Match(family, protocol, address, self.remote_port, self.local_port)
            for family, address in places or [("ip", None), ("ip6", None)]
            for protocol in protocols
        )

    def about_traffic(self) -> tuple[str, ...]:
        """Sentences for `cannot_know` that follow from the choice of packets."""
        said = []
        ported = self.remote_port or self.local_port
        if "lo" in self.device and not ported:
            said.append(
                "on lo a request and its reply both leave and arrive through the same device, so a round trip meets "
                f"the fault {'four times' if self.direction == 'both' else 'twice'}"
            )
        if ported:
            said.append("fragments of a packet carry no ports: all but the first pass the filter untouched")
        if self.host:
            said.append("a host name's new address is met up to a second after the name has it")
        if self.protocol == "icmp":
            said.append("IPv6 finds its neighbours by ICMPv6, so the fault can reach all IPv6 of the device")
        return tuple(said)


def family_of(address: str) -> Family:
    """`ip` or `ip6`."""
    return "ip" if ipaddress.ip_network(address).version == 4 else "ip6"


def meets(one: Traffic, other: Traffic) -> str | None:
    """A device and direction on which some packet is in both choices, as far as the parameters tell; None: nowhere.

    Different host names are taken for different peers.
    """
    for device in one.device:
        for way in one.ways:
            if device in other.device and way in other.ways and _overlap(one, other):
                return f"{way} on {device}"
    return None


def hides(one: Traffic, other: Traffic) -> bool:
    """Is every packet that `other` means one that `one` means too?"""
    inside = set(other.device) <= set(one.device) and set(other.ways) <= set(one.ways)
    if not inside or not one.filtered:
        return inside
    return other.filtered and all(any(_within(one, mine, other, m) for mine in one.matches()) for m in other.matches())


def _overlap(one: Traffic, other: Traffic) -> bool:
    if not one.filtered or not other.filtered:
        return True
    apart = bool(one.host and other.host and not set(one.host) & set(other.host))
    return any(
        mine.family == theirs.family
        and not (apart and _named(mine) and _named(theirs))
        and all(
            None in pair or pair[0] == pair[1]
            for pair in (
                (mine.protocol, theirs.protocol),
                (mine.remote_port, theirs.remote_port),
                (mine.local_port, theirs.local_port),
            )
        )
        and (_named(mine) or _named(theirs) or _common(mine.address, theirs.address))
        for mine in one.matches()
        for theirs in other.matches()
    )


def _within(one: Traffic, mine: Match, other: Traffic, theirs: Match) -> bool:
    if not (
        mine.family == theirs.family
        and mine.protocol in (None, theirs.protocol)
        and mine.remote_port in (None, theirs.remote_port)
        and mine.local_port in (None, theirs.local_port)
    ):
        return False
    if mine.address is None or theirs.address is None:
        return mine.address is None
    if _named(mine) or _named(theirs):
        return _named(mine) and _named(theirs) and set(other.host) <= set(one.host)
    wide, narrow = _ends(mine.address), _ends(theirs.address)
    return wide[0] <= narrow[0] and narrow[1] <= wide[1]


def _common(one: str | None, other: str | None) -> bool:
    if one is None or other is None:
        return True
    mine, theirs = _ends(one), _ends(other)
    return mine[0] <= theirs[1] and theirs[0] <= mine[1]


def _ends(address: str) -> tuple[int, int]:
    network = ipaddress.ip_network(address)
    return int(network.network_address), int(network.broadcast_address)


def _named(match: Match) -> bool:
    return match.address is not None and match.address.startswith("@")


def same_network(one: Any, other: Any) -> bool:
    """Two spellings of one address or network."""
    try:
        return ipaddress.ip_network(str(one)) == ipaddress.ip_network(str(other))
    except ValueError:
        return False
