"""`dns.wrong`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from stormcell.faults._dns import DnsProxied, Ttl
from stormcell.faults._fields import Addresses
from stormcell.faults._redirect import NAT
from stormcell.spec.fault import Reading


class DnsWrong(DnsProxied):
    """Queries for some names are answered with another address; all others are answered as before."""

    kind = "dns.wrong"
    needs = NAT
    counts = "queries that were answered with the wrong address"
    proves = "the proxy's answers by name, a fresh query that gets the address, and the counters of the redirections"
    example: ClassVar[dict[str, Any]] = {"kind": "dns.wrong", "names": "db.example.org", "address": "192.0.2.1"}

    address: Addresses
    """What the names resolve to, IPv4 or IPv6 or both. A query for the other family is told that there is none."""
    ttl: Ttl = 0
    """Seconds for which whoever asked may keep the answer; what was kept outlives the fault."""

    @model_validator(mode="after")
    def _hosts(self) -> DnsWrong:
        if not self.address:
            raise ValueError("an address to answer is needed, for example 192.0.2.1")
        if wide := [address for address in self.address if "/" in address]:
            raise ValueError(f"'{wide[0]}' is a network; a name resolves to addresses, for example 192.0.2.1")
        return self

    @property
    def does(self) -> Literal["wrong"]:
        """Lie."""
        return "wrong"

    def amounts(self) -> dict[str, Any]:
        """The addresses."""
        return {"addresses": list(self.address), "ttl": self.ttl}

    def in_force(self, before: Reading, during: Reading) -> bool:
        """And a fresh query gets them."""
        four = [address for address in self.address if ":" not in address]
        probe = self.probed(during)
        told = (probe.get("rcode"), probe.get("addresses"))
        return super().in_force(before, during) and told == (0, four or list(self.address))

    def cannot_know(self) -> tuple[str, ...]:
        """Kept answers."""
        kept = f"an answer may be kept for {self.ttl} s by whoever asked, also after the undo"
        return (*super().cannot_know(), *([kept] if self.ttl else []))
