"""`net.reject`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from stormcell.faults._network import FAMILIES, Match, Way
from stormcell.faults._nft import Rule
from stormcell.faults._partition import Partition
from stormcell.spec.fault import Needs

RESET = "tcp-reset"


class Reject(Partition):
    """Packets are refused, and the sender is told: connections fail at once, also those that are open."""

    kind = "net.reject"
    needs = Needs(programs=("nft",), modules=("nf_tables", "nft_reject_inet"))
    counts = "packets refused by the rules"
    proves = "the packet counter of every single rule, by device, direction and family (`nft list ruleset`)"
    example: ClassVar[dict[str, Any]] = {"kind": "net.reject", "device": "lo", "remote_port": 6379, "with": "tcp-reset"}

    answer: Literal["tcp-reset", "port-unreachable", "host-unreachable", "admin-prohibited", "no-route"] = Field(
        default="tcp-reset", alias="with"
    )
    """What the sender gets: a TCP reset (TCP only), or an ICMP error of this kind."""

    @model_validator(mode="after")
    def _reset_is_tcp(self) -> Reject:
        if self.answer == RESET and self.protocol not in (None, "tcp"):
            raise ValueError(f"only TCP knows a reset; for {self.protocol} write with: port-unreachable")
        return self

    @property
    def family(self) -> str:
        """`reject` needs the IP layer."""
        return "inet"

    def matches(self) -> tuple[Match, ...]:
        """A reset alone means TCP."""
        if self.answer == RESET and self.protocol is None:
            return self.model_copy(update={"protocol": "tcp"}).matches()
        return super().matches() or tuple(Match(family, None, None, None, None) for family in FAMILIES)

    def passes(self) -> tuple[tuple[str, str], ...]:
        """ICMP errors are the refusal itself: on lo they come back through the same chain."""
        if all(match.protocol in ("tcp", "udp") for match in self.matches()):
            return ()
        errors = ("icmp type destination-unreachable", "icmpv6 type destination-unreachable")
        return tuple((way, f"{error} accept") for way in self.ways for error in errors)

    @property
    def foremost(self) -> tuple[Way, ...]:
        """What comes in is refused after it went through the queues."""
        return ("out",)

    def chains(self) -> tuple[tuple[str, str], ...]:
        """One for each direction."""
        hook = {"out": "output", "in": "input"}
        return tuple((way, f"type filter hook {hook[way]} priority -400;") for way in self.ways)

    def rules(self) -> tuple[Rule, ...]:
        """One for each device, direction and match. A TCP reset passes: it is the refusal itself."""
        reset = self.answer == RESET
        verdict = "reject with tcp reset" if reset else f"reject with icmpx {self.answer}"
        shown = {"reject": {"type": "tcp reset"} if reset else {"type": "icmpx", "expr": self.answer}}
        extra, wanted = self.picks()
        return tuple(
            Rule(
                way,
                match.label(way, device),
                match,
                way,
                verdict,
                shown,
                device,
                extra or _not_a_reset(match),
                wanted,
                sees=bool(extra),
            )
            for device in self.device
            for way in self.ways
            for match in self.matches()
        )

    def cannot_know(self) -> tuple[str, ...]:
        """UDP on the way out, the peer of an open connection."""
        said = []
        if "out" in self.ways and self.answer != RESET:
            said.append("a refused UDP or ICMP packet on its way out also fails the sender's own call with EPERM")
            said.append(
                "over IPv6 a TCP connect() takes the error at its second try, 1 s later (measured on Linux 6.1)"
            )
        if self.answer == RESET:
            said.append("only the sender of a refused packet is reset; its peer is not told")
        return (*said, *self.about_traffic())


def _not_a_reset(match: Match) -> str:
    return "tcp flags & rst == 0" if match.protocol == "tcp" else ""
