"""What the faults of a relay of TCP connections share: which connections, and what became of them."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults import _nft
from stormcell.faults._dns import Names, Share
from stormcell.faults._fields import Addresses, Port, one_of
from stormcell.faults._network import Family, Match, family_of
from stormcell.faults._reading import mapping, numbers
from stormcell.faults._redirect import SYN, Redirected, ordered
from stormcell.spec.fault import GUEST, Command, Fault, Reading


class Relayed(Redirected):
    """New TCP connections to a port go through a relay in the guest."""

    tool = "relay"
    drawn: ClassVar[str] = "connections"

    remote_port: Port | None = None
    """Connections from this machine to this port of any server. Either this or `local_port`."""
    local_port: Port | None = None
    """Connections to a server of this machine on this port, from here and from outside."""
    address: Addresses = ()
    """Only those to a server at these addresses or networks, IPv4 or IPv6."""
    share: Share = 100.0
    """The share of the connections (of the answers, where answers are delayed) that meets the fault."""

    @model_validator(mode="after")
    def _one_port(self) -> Relayed:
        one_of(remote_port=self.remote_port, local_port=self.local_port)
        return self

    @property
    def does(self) -> str:
        """The relay's word for it."""
        raise NotImplementedError

    def amounts(self) -> dict[str, Any]:
        """The orders that are the kind's own."""
        raise NotImplementedError

    def orders(self) -> dict[str, Any]:
        """With every field, as the relay shows them."""
        return {
            "do": self.does, "share": self.share / 100, "names": ["*"], "delay": None, "jitter": 0.0, "rate": 0,
            "after": 0, "status": 0, "everywhere": self.local_port is not None, "problem": "", "issuer": [],
            "trust": "", **self.amounts(),
        }  # fmt: skip

    def chains(self) -> tuple[tuple[str, str], ...]:
        """Connections to this machine also come from outside."""
        outside = (("in", super().chains()[0][1].replace("output", "prerouting")),)
        return super().chains() + (outside if self.local_port is not None else ())

    def rules(self) -> tuple[_nft.Rule, ...]:
        """One for each family or address, and for each chain. What this machine sends to itself leaves by lo."""
        verdict, shown = self.redirect
        port = self.remote_port or self.local_port
        places: list[tuple[Family, str | None]] = [(family_of(a), a) for a in self.address]
        return tuple(
            _nft.Rule(
                chain, f"{chain} {family} {address or 'any'}", Match(family, "tcp", address, port, None), "out",
                verdict, shown, device="lo" if chain == "out" and self.local_port is not None else "", extra=SYN,
            )
            for chain, _ in self.chains()
            for family, address in places or [("ip", None), ("ip6", None)]
        )  # fmt: skip

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Still in force, and no connection was turned away for want of room in the relay."""
        return self.in_force(before, after) and numbers(mapping(after, "proxy")).get("dropped") == 0

    def acted(self, during: Reading, after: Reading) -> int:
        """Counted by the relay since the act."""
        return numbers(mapping(after, "proxy")).get("hits", 0)

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """The relay takes other amounts while it works."""
        if not isinstance(to, type(self)):
            return None
        return (Command(argv=(GUEST, self.tool, "change", self.id, ordered(to.orders()))),)

    def conflicts(self, other: Fault) -> str | None:
        """A relay that speaks TLS or HTTP itself hides what comes behind it."""
        same = isinstance(other, Relayed) and (other.remote_port, other.local_port) == (
            self.remote_port, self.local_port)  # fmt: skip
        if same and isinstance(other, Relayed) and {"certificate", "status"} & {self.does, other.does}:
            return (
                f"both take the connections to port {self.remote_port or self.local_port}, and one answers them itself"
            )
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What became of the connections, by the relay and by the kernel's counters."""
        told = mapping(after, "proxy")
        if not told.get("running"):
            return ()
        counts = numbers(told)
        said = [
            f"{counts.get('connections', 0)} connections came; {counts.get('passed', 0)} {self.drawn} passed untouched"
        ]
        least, most = told.get("held_least"), told.get("held_most")
        if isinstance(least, float) and isinstance(most, float) and most > 0:
            said.append(f"held between {least:.3f} and {most:.3f} s")
        said += [f"{how}: {count} times" for how, count in numbers(told.get("outcomes")).items()]
        if counts.get("unreachable"):
            said.append(f"{counts['unreachable']} connections could not be passed on: their server did not accept them")
        if counts.get("dropped"):
            said.append(f"collateral: {counts['dropped']} connections were turned away for want of room in the relay")
        return (*said, *self.redirected(after))

    def cannot_know(self) -> tuple[str, ...]:
        """What a relay changes by being there."""
        return (
            "the relay accepts a connection before the server does: one that the server refuses is reset instead",
            "the server sees the relay as its peer, with another port and, for clients from outside, another address",
            "connections that were open at the act go on past the fault, those through the relay end at the undo",
        )


class NamedTls(Relayed):
    """With TLS clients told apart by the server name that they ask for."""

    names: Names = ("*",)
    """Only TLS clients that ask for these server names (SNI): exact, `*.example.org`, or `*` for every one and none."""
