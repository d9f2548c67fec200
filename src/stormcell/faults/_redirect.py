"""Faults of a proxy in the guest: nftables redirects what is meant to it, and it passes on what the fault spares."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from stormcell.faults import _nft
from stormcell.faults._fields import Placed
from stormcell.faults._reading import mapping
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading

NAT = Needs(
    programs=("nft",), modules=("nf_tables", "nft_chain_nat", "nft_redir", "nft_ct", "nf_conntrack_netlink")
)  # fmt: skip
SYN = "tcp flags & 0x17 == 0x2"
"""Opens a connection. The kernel takes one that was open before it kept track for new, and would lead its rest away."""
_MARK = 0x5C0D0000
_OWN, _ZONES = "own", 0x5C00
"""A flow is led away when it is new to the kernel, which knows one by its ends. So what the proxy sends has a zone of
its own (nf_conntrack_zones.h): else who gets its port next would be taken for it, and pass.
"""
_PORTS = 61000
_LAST = 99


class Redirected(Placed):
    """A proxy and a table that leads to it.

    What a proxy sends carries the fault's number as a mark, and a redirection spares its own number and those above:
    so two such faults pass a connection on from one to the other, once.
    """

    tool: ClassVar[str]

    def orders(self) -> dict[str, Any]:
        """What the proxy is told to do; it shows the same."""
        raise NotImplementedError

    def rules(self) -> tuple[_nft.Rule, ...]:
        """What is redirected to `proxy_port`."""
        raise NotImplementedError

    def chains(self) -> tuple[tuple[str, str], ...]:
        """Where; before other address translation."""
        return (("out", f"type nat hook output priority {-150 + min(self.number, 40)};"),)

    @property
    def proxy_port(self) -> int:
        """Outside of the range from which the kernel takes ports by itself."""
        return _PORTS + self.number

    @property
    def mark(self) -> int:
        """SO_MARK of what the proxy sends."""
        return _MARK + self.number

    @property
    def table(self) -> str:
        """Of this fault alone."""
        return f"stormcell_{self.kind.replace('.', '_').replace('-', '_')}_{self.number}"

    def plan(self) -> Act:
        """First the proxy, then the way to it; undone in the other order."""
        spared = f"meta mark {self.mark:#x}-{_MARK + _LAST:#x} return"
        passes = [(name, spared) for name, _ in self.chains()]
        passes.append((_OWN, f"meta mark {self.mark:#x} ct original zone set {_ZONES + self.number}"))
        chains = (*self.chains(), (_OWN, "type filter hook output priority -300;"))
        made = _nft.script("inet", self.table, chains, passes, self.rules())
        place = (self.id, str(self.proxy_port))
        return Act(
            apply=(
                Command(argv=(GUEST, self.tool, "start", *place, str(self.mark), ordered(self.orders())), name="proxy"),
                Command(argv=(GUEST, "nft", "run"), name="nft", stdin=made),
            ),
            undo=(_nft.delete("inet", self.table), Command(argv=(GUEST, self.tool, "stop", *place))),
            read=(_nft.READ, Command(argv=(GUEST, self.tool, "show", self.id), name="proxy")),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The table is new, every rule stands, and the proxy runs with these orders."""
        new = _nft.readable(before) and not _nft.listed(before, "table", "inet", self.table)
        shown = _nft.listed(during, "rule", "inet", self.table)
        told = mapping(during, "proxy")
        return (
            new
            and mapping(before, "proxy").get("running") is False
            and all(any(rule.stands(item) for item in shown) for rule in self.rules())
            and told.get("orders") == self.orders()
        )

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Neither table nor proxy."""
        told = mapping(undone, "proxy")
        return (
            _nft.readable(undone)
            and not _nft.listed(undone, "table", "inet", self.table)
            and told.get("running") is False
            and told.get("left") is False
        )

    def redirected(self, reading: Reading | None) -> tuple[str, ...]:
        """Flows by rule, by the kernel's counters."""
        counted = _nft.packets(reading, "inet", self.table) if reading else {}
        return tuple(f"{label}: {count} flows" for label, count in counted.items() if count)

    @property
    def redirect(self) -> tuple[str, dict[str, Any]]:
        """The verdict as nft reads it, and as it shows it."""
        return f"redirect to :{self.proxy_port}", {"redirect": {"port": self.proxy_port}}


def ordered(orders: dict[str, Any]) -> str:
    """As an argument."""
    return json.dumps(orders, sort_keys=True)
