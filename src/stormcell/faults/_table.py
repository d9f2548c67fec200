"""The shape of a fault that is one nft table."""

from __future__ import annotations

from collections.abc import Iterator

from stormcell.faults import _nft, _qdisc
from stormcell.faults._fields import Documented
from stormcell.faults._network import Match, Way
from stormcell.spec.fault import Act, Command, Reading


class Table(Documented):
    """A fault whose rules are in a table of its own, named after its kind."""

    def rules(self) -> tuple[_nft.Rule, ...]:
        """Every rule."""
        raise NotImplementedError

    def chains(self) -> tuple[tuple[str, str], ...]:
        """Every (chain, hook)."""
        raise NotImplementedError

    def passes(self) -> tuple[tuple[str, str], ...]:
        """(chain, rule) that let through, uncounted, what the rules must not touch."""
        return ()

    @property
    def family(self) -> str:
        """Of the table."""
        return "netdev"

    @property
    def table(self) -> str:
        """Its name."""
        return "stormcell_" + self.kind.replace(".", "_")

    def plan(self) -> Act:
        """One transaction, one deletion."""
        made = _nft.script(self.family, self.table, self.chains(), self.passes(), self.rules())
        return Act(
            apply=(Command(argv=("nft", "-f", "-"), name="nft", stdin=made),),
            undo=(_nft.delete(self.family, self.table),),
            read=(_nft.READ,),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The table is new, and every rule is in it with its values and its verdict."""
        new = _nft.readable(before) and not _nft.listed(before, "table", self.family, self.table)
        shown = _nft.listed(during, "rule", self.family, self.table)
        chains = {str(chain.get("name")) for chain in _nft.listed(during, "chain", self.family, self.table)}
        return (
            new
            and chains >= {name for name, _ in self.chains()}
            and all(any(rule.stands(item) for item in shown) for rule in self.rules())
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Packets counted by the rules, which began at zero with the act."""
        return sum(_nft.packets(after, self.family, self.table).values())

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Our table is gone."""
        return _nft.readable(undone) and not _nft.listed(undone, "table", self.family, self.table)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Packets by rule, and which rules nothing crossed: a family, a direction, a device."""
        counted = _nft.packets(after, self.family, self.table) if after else {}
        idle = [label for label, count in counted.items() if not count]
        said = [f"{label}: {count} packets" for label, count in counted.items() if count]
        return (*said, f"nothing crossed: {'; '.join(idle)}") if idle else tuple(said)


class BlackHole(Table):
    """A table that makes packets vanish at the edge of devices, so that nobody is told.

    What comes in is dropped at the ingress hook. What goes out is forwarded at the egress hook to a `dummy` device,
    which drops it: a plain `drop` there answers the sender NET_XMIT_DROP, on which TCP retries every 0.5 s without
    backing off and gives a new connection up after 4 s (measured on Linux 6.1: tcp_retransmit_timer takes it for
    local congestion), where a network that loses packets keeps it waiting for two minutes.
    """

    @property
    def edges(self) -> tuple[str, ...]:
        """The devices."""
        raise NotImplementedError

    @property
    def ways(self) -> tuple[Way, ...]:
        """The directions."""
        raise NotImplementedError

    def packets(self) -> tuple[Match | None, ...]:
        """What vanishes; None is what no family has (ARP)."""
        raise NotImplementedError

    @property
    def sink(self) -> str:
        """The dummy device's name."""
        return "sc-" + self.kind.replace(".", "-")

    def chains(self) -> tuple[tuple[str, str], ...]:
        """One for each device and direction."""
        hook = {"out": "egress", "in": "ingress"}
        return tuple(
            (_chain(way, number), f'type filter hook {hook[way]} device "{device}" priority -400;')
            for number, device in enumerate(self.edges)
            for way in self.ways
        )

    def rules(self) -> tuple[_nft.Rule, ...]:
        """One for each device, direction and match."""
        return tuple(
            _nft.Rule(
                _chain(way, number),
                match.label(way, device) if match else f"{way} {device} other",
                match,
                way,
                f'fwd to "{self.sink}"' if way == "out" else "drop",
                {"fwd": {"dev": self.sink}} if way == "out" else {"drop": None},
            )
            for number, device in enumerate(self.edges)
            for way in self.ways
            for match in self.packets()
        )

    def plan(self) -> Act:
        """With the dummy device for what goes out."""
        act = super().plan()
        if "out" not in self.ways:
            return act
        up = f"link add name {self.sink} type dummy\nlink set dev {self.sink} up\n"
        made = Command(argv=("ip", "-batch", "-"), name="ip", stdin=up)
        gone = Command(argv=("ip", "link", "del", "dev", self.sink), accept=(0, 1))
        shown = Command(argv=("ip", "-j", "link", "show"), name="links")
        return Act(apply=(made, *act.apply), undo=(*act.undo, gone), read=(*act.read, shown))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The dummy device is gone too."""
        links = _qdisc.links(undone)
        return super().clean(before, undone) and ("out" not in self.ways or (bool(links) and self.sink not in links))


def _chain(way: Way, number: int) -> str:
    return f"{way}{number}"


def everything() -> Iterator[Match | None]:
    """Every packet, by family."""
    yield Match("ip", None, None, None, None)
    yield Match("ip6", None, None, None, None)
    yield None
