"""What the faults of a DNS proxy share: which queries are meant, and what became of all of them."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from stormcell.faults import _nft
from stormcell.faults._fields import one_or_list, several
from stormcell.faults._network import Family, Match
from stormcell.faults._reading import counted, mapping, numbers, texts
from stormcell.faults._redirect import SYN, Redirected, ordered
from stormcell.spec.fault import GUEST, Act, Command, Fault, Reading
from stormcell.spec.units import Percent

_PATTERN = re.compile(r"(\*|(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)\Z")


def _names(value: object) -> tuple[str, ...]:
    names = tuple(name.lower().rstrip(".") for name in several(value))
    for name in names:
        if not _PATTERN.match(name) or len(name) > 200:
            raise ValueError(f"'{name}' is no name to ask for; write for example db.example.org, *.example.org or *")
    if "*" in names and len(names) > 1:
        raise ValueError("'*' is every name; leave the others out")
    return names


Names = Annotated[
    tuple[str, ...],
    BeforeValidator(_names),
    PlainSerializer(one_or_list, return_type=str | list[str]),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "examples": ["db.example.org", "*.example.org"]},
                {"type": "array", "items": {"type": "string"}, "minItems": 1},
            ]
        }
    ),
]
"""Names, or `*.` and a suffix, or `*`."""


def _some(share: float) -> float:
    if not share > 0:
        raise ValueError("0% of the queries is no fault; write a share above 0%, up to 100%")
    return share


Share = Annotated[Percent, AfterValidator(_some)]
"""Above 0 %."""

Ttl = Annotated[int, Field(strict=True, ge=0, le=86_400)]
"""Seconds."""

QUERIES: tuple[tuple[Family, str], ...] = (("ip", "udp"), ("ip6", "udp"), ("ip", "tcp"), ("ip6", "tcp"))


class DnsProxied(Redirected):
    """Queries over UDP and TCP port 53, IPv4 and IPv6, to whatever server, go through a proxy."""

    tool = "dns"

    names: Names = ("*",)
    """Only queries for these names: `db.example.org` is that name, `*.example.org` any below it, `*` every name."""
    share: Share = 100.0
    """The share of these queries that meets the fault, each drawn by itself."""

    @property
    def does(self) -> Literal["fail", "wrong", "slow"]:
        """The proxy's word for it."""
        raise NotImplementedError

    def amounts(self) -> dict[str, Any]:
        """The orders that are the kind's own."""
        raise NotImplementedError

    def orders(self) -> dict[str, Any]:
        """With every field, as the proxy shows them."""
        return {
            "do": self.does, "names": list(self.names), "share": self.share / 100, "rcode": "NXDOMAIN",
            "addresses": [], "ttl": 0, "delay": 0.0, "jitter": 0.0, **self.amounts(),
        }  # fmt: skip

    def rules(self) -> tuple[_nft.Rule, ...]:
        """New flows to port 53 are led away; those to port 853 are counted and pass."""
        verdict, shown = self.redirect
        return tuple(
            _nft.Rule(
                "out", f"{family} {protocol} {port}", Match(family, protocol, None, port, None), "out",
                verdict if port == 53 else "accept", shown if port == 53 else {"accept": None},
                extra=SYN if protocol == "tcp" else "",
            )
            for port, ways in ((53, QUERIES), (853, QUERIES[2:]))
            for family, protocol in ways
        )  # fmt: skip

    def plan(self) -> Act:
        """Caches are emptied when queries are led to the proxy, and again after it."""
        act = super().plan()
        emptied = Command(argv=(GUEST, self.tool, "empty", self.id), name="caches")
        return Act(apply=(*act.apply, emptied), undo=act.undo, read=act.read)

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Still in force, and no query that the fault does not mean was lost in the proxy."""
        return self.in_force(before, after) and numbers(mapping(after, "proxy")).get("dropped") == 0

    def acted(self, during: Reading, after: Reading) -> int:
        """Queries of the target, since the act; those of our own probe are not among them."""
        return sum(counted(mapping(after, "proxy").get("answered")).values())

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """The proxy takes other orders while it works."""
        if not isinstance(to, type(self)):
            return None
        return (Command(argv=(GUEST, self.tool, "change", self.id, ordered(to.orders()))),)

    def conflicts(self, other: Fault) -> str | None:
        """The same names twice: the first would hide the second."""
        if isinstance(other, DnsProxied) and other.names == self.names and {self.does, other.does} == {"fail", "wrong"}:
            return f"both answer queries for {', '.join(self.names)}, and a query has one answer"
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Hits by name, collateral, what needs no query, and the kernel's counters."""
        told = mapping(after, "proxy")
        if not told.get("running"):
            return ()
        counts = numbers(told)
        said = [f"{name}: {count} queries met the fault" for name, count in numbers(told.get("answered")).items()]
        said.append(
            f"{counts.get('passed', 0)} other queries passed: {counts.get('passed_answered', 0)} were answered, "
            f"{counts.get('passed_unanswered', 0)} were not"
        )
        if counts.get("dropped"):
            said.append(f"collateral: {counts['dropped']} other queries were lost in the proxy")
        if hosts := texts(told.get("hosts")):
            said.append(f"in /etc/hosts, so that no query is needed: {', '.join(hosts)}")
        caches = told.get("caches")
        for daemon, how in caches.items() if isinstance(caches, dict) else ():
            said.append(
                f"caching daemon that runs, emptied at the act and at the undo: {daemon}"
                if how == "flushed"
                else f"caching daemon that runs and could not be emptied: {daemon} ({how})"
            )
        return (*said, *self.redirected(after))

    def cannot_know(self) -> tuple[str, ...]:
        """Other ways to a name."""
        return (
            "DNS over TLS and over HTTPS are not covered: nobody but their ends can read the names; new connections to "
            "port 853 are counted and pass",
            "names from /etc/hosts and from a cache inside a process need no query and still resolve",
            "a DNS connection over TCP that was open at the act goes on past the fault, and queries from other network "
            "namespaces of the machine are not seen",
        )

    def probed(self, reading: Reading) -> dict[str, Any]:
        """What a fresh query was told."""
        probe = mapping(reading, "proxy").get("probe")
        return probe if isinstance(probe, dict) else {}
