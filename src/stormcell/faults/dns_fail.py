"""`dns.fail`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from stormcell.faults._dns import DnsProxied
from stormcell.faults._redirect import NAT
from stormcell.spec.fault import Reading

RCODES = {"NODATA": 0, "FORMERR": 1, "SERVFAIL": 2, "NXDOMAIN": 3, "NOTIMP": 4, "REFUSED": 5}


class DnsFail(DnsProxied):
    """Queries for some names are answered with an error; all others are answered as before."""

    kind = "dns.fail"
    needs = NAT
    counts = "queries that were answered with the error"
    proves = "the proxy's answers by name, a fresh query that gets the error, and the counters of the redirections"
    example: ClassVar[dict[str, Any]] = {"kind": "dns.fail", "names": "*.example.org", "rcode": "SERVFAIL"}

    rcode: Literal["NXDOMAIN", "SERVFAIL", "REFUSED", "FORMERR", "NOTIMP", "NODATA"] = "NXDOMAIN"
    """The error. NODATA: the name exists, but nothing of the type that was asked for."""

    @property
    def does(self) -> Literal["fail"]:
        """Fail."""
        return "fail"

    def amounts(self) -> dict[str, Any]:
        """The code."""
        return {"rcode": self.rcode}

    def in_force(self, before: Reading, during: Reading) -> bool:
        """And a fresh query gets this code."""
        probe = self.probed(during)
        told = (probe.get("rcode"), probe.get("addresses"))
        return super().in_force(before, during) and told == (RCODES[self.rcode], [])
