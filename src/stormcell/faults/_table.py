"""The shape of a fault that is one nft table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from stormcell.faults import _nft, _qdisc
from stormcell.faults._fields import Placed
from stormcell.faults._network import HOST_SET, Match, Way
from stormcell.faults._reading import mapping, texts
from stormcell.spec.fault import GUEST, Act, Command, Reading

HOOK_PREF = 23552
"""Of our filter that makes packets on lo seen again; the fault's number is added."""


class Table(Placed):
    """A fault whose rules are in a table of its own, named after its kind and its place in the experiment."""

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
        return f"stormcell_{self.kind.replace('.', '_').replace('-', '_')}_{self.number}"

    @property
    def names(self) -> tuple[str, ...]:
        """Host names whose addresses the rules mean."""
        return getattr(self, "host", ())

    @property
    def mark(self) -> str:
        """Under which the guest knows who watches the names."""
        return f"{self.id}-hosts"

    def plan(self) -> Act:
        """One transaction, one deletion."""
        sets = [(HOST_SET[f][1:], t) for f, t in (("ip", "ipv4_addr"), ("ip6", "ipv6_addr"))] if self.names else []
        made = _nft.script(self.family, self.table, self.chains(), self.passes(), self.rules(), sets)
        if not self.names:
            apply = Command(argv=(GUEST, "nft", "run"), name="nft", stdin=made)
            return Act(apply=(apply,), undo=(_nft.delete(self.family, self.table),), read=(_nft.READ,))
        watch = (GUEST, "hosts", "watch", self.mark, self.family, self.table, *self.names)
        return Act(
            apply=(Command(argv=watch, name="hosts", stdin=made),),
            undo=(Command(argv=(GUEST, "hosts", "stop", self.mark)), _nft.delete(self.family, self.table)),
            read=(_nft.READ, Command(argv=(GUEST, "hosts", "show", self.mark), name="hosts")),
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
            and self._named(during)
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Packets counted by the rules, which began at zero with the act."""
        return sum(_nft.packets(after, self.family, self.table).values())

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Our table is gone, and nobody watches names for it."""
        gone = _nft.readable(undone) and not _nft.listed(undone, "table", self.family, self.table)
        return gone and (not self.names or mapping(undone, "hosts").get("left") is False)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Packets by rule, which rules nothing crossed (a family, a direction, a device), what the names meant."""
        counted = _nft.packets(after, self.family, self.table) if after else {}
        asked = _nft.seen(after, self.family, self.table) if after else {}
        idle = [label for label in counted if not asked[label]]
        said = [
            f"{label}: {count} packets" + (f" of {asked[label]}" if asked[label] != count else "")
            for label, count in counted.items()
            if asked[label]
        ]
        said += [f"nothing crossed: {'; '.join(idle)}"] if idle else []
        return (*said, *self._families(counted), *self._meanings(after))

    def _families(self, counted: dict[str, int]) -> Iterator[str]:
        crossed = {
            word: sum(count for label, count in counted.items() if word in label.split()) for word in ("ip", "ip6")
        }
        there = [word for word in crossed if any(word in label.split() for label in counted)]
        met = [word for word in there if crossed[word]]
        if len(there) == 2 and len(met) == 1:
            (other,) = set(there) - set(met)
            word = {"ip": "IPv4", "ip6": "IPv6"}
            yield f"only {word[met[0]]} was met: this run shows nothing about {word[other]}"

    def _named(self, during: Reading) -> bool:
        if not self.names:
            return True
        shown = mapping(during, "hosts")
        meant = shown.get("names")
        if shown.get("watcher") is not True or not isinstance(meant, dict) or not set(self.names) <= set(meant):
            return False
        held = set[str]().union(*(_nft.elements(during, self.family, self.table, one[1:]) for one in HOST_SET.values()))
        return all((found := texts(meant[name])) and set(found) <= held for name in self.names)

    def _meanings(self, after: Reading | None) -> Iterator[str]:
        meant = mapping(after, "hosts").get("names")
        for name, found in meant.items() if isinstance(meant, dict) else ():
            yield f"{name} meant {', '.join(texts(found)) or 'nothing'}"


class Edge(Table):
    """A table at the edge of devices: packets are taken as they leave a device's stack or enter it."""

    priority: ClassVar[int] = -400
    """Of its chains: what drops comes before what delays."""

    @property
    def edges(self) -> tuple[str, ...]:
        """The devices."""
        raise NotImplementedError

    @property
    def ways(self) -> tuple[Way, ...]:
        """The directions."""
        raise NotImplementedError

    def packets(self) -> tuple[Match | None, ...]:
        """Which; None is what no family has (ARP)."""
        raise NotImplementedError

    def verdict(self, way: Way, number: int) -> tuple[str, dict[str, Any]]:
        """What is done to them at the device of that number, as nft reads and as it shows it."""
        raise NotImplementedError

    def picks(self) -> tuple[str, tuple[dict[str, Any], ...]]:
        """A further condition, as nft reads and as it shows it: a share of the packets, or TCP flags."""
        return "", ()

    @property
    def own(self) -> tuple[str, ...]:
        """Names of the devices that the fault makes."""
        raise NotImplementedError

    def chains(self) -> tuple[tuple[str, str], ...]:
        """One for each device and direction."""
        hook = {"out": "egress", "in": "ingress"}
        return tuple(
            (f"{way}{number}", f'type filter hook {hook[way]} device "{device}" priority {self.priority};')
            for number, device in enumerate(self.edges)
            for way in self.ways
        )

    def rules(self) -> tuple[_nft.Rule, ...]:
        """One for each device, direction and match."""
        extra, wanted = self.picks()
        return tuple(
            _nft.Rule(
                f"{way}{number}",
                match.label(way, device) if match else f"{way} {device} other",
                match,
                way,
                *self.verdict(way, number),
                extra=extra,
                wanted=wanted,
                sees=bool(extra),
            )
            for number, device in enumerate(self.edges)
            for way in self.ways
            for match in self.packets()
        )

    @property
    def hooked(self) -> bool:
        """Does the way in over lo have to be opened for packets that another fault held up on their way out?"""
        return "lo" in self.edges and "in" in self.ways

    def plan(self) -> Act:
        """With our devices, and the way in over lo."""
        act = super().plan()
        read = [*act.read, Command(argv=(GUEST, "link", "list"), name="links")]
        apply, undo = list(act.apply), list(act.undo)
        if self.hooked:
            pref = str(HOOK_PREF + self.number)
            apply.insert(0, Command(argv=(GUEST, "link", "hook", "lo", pref), name="hook"))
            undo.append(Command(argv=(GUEST, "link", "unhook", "lo", pref)))
            if not any(command.name == "tc" for command in read):
                read.append(
                    Command(argv=(GUEST, "tc", "-j", "-batch", "-"), name="tc", stdin="qdisc show\n" + EGRESS_OF_LO)
                )
        return Act(apply=tuple(apply), undo=tuple(undo), read=tuple(read))

    def in_force(self, before: Reading, during: Reading) -> bool:
        """With our devices up, which are new."""
        devices = all(not mapping(before, "links").get(own) and _up(during, own) for own in self.own)
        hook = not self.hooked or HOOK_PREF + self.number in _qdisc.prefs(during)
        return super().in_force(before, during) and bool(mapping(before, "links")) and devices and hook

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Our devices are gone too."""
        links = mapping(undone, "links")
        hook = self.hooked and (not _qdisc.qdiscs(undone) or HOOK_PREF + self.number in _qdisc.prefs(undone))
        return super().clean(before, undone) and bool(links) and not hook and not any(own in links for own in self.own)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Devices that came while the fault was in force."""
        there = set(mapping(before, "links"))
        new = [name for name in mapping(after, "links") if there and name not in there and not _a_faults(name)]
        late = [f"{name} came while the fault was in force: it is not met" for name in new]
        return (*super().notes(before, during, after), *late)


EGRESS_OF_LO = "filter show dev lo egress\n"


class BlackHole(Edge):
    """A table that makes packets vanish at the edge of devices, so that nobody is told.

    What comes in is dropped at the ingress hook. What goes out is forwarded at the egress hook to a `dummy` device,
    which drops it: a plain `drop` there answers the sender NET_XMIT_DROP, on which TCP retries every 0.5 s without
    backing off and gives a new connection up after 4 s (measured on Linux 6.1: tcp_retransmit_timer takes it for
    local congestion), where a network that loses packets keeps it waiting for two minutes.
    """

    @property
    def sink(self) -> str:
        """The dummy device's name."""
        return f"sc{self.number}-sink"

    @property
    def own(self) -> tuple[str, ...]:
        """The sink, for what goes out."""
        return (self.sink,) if "out" in self.ways else ()

    def verdict(self, way: Way, number: int) -> tuple[str, dict[str, Any]]:
        """Into the sink, or dropped."""
        return (f'fwd to "{self.sink}"', {"fwd": {"dev": self.sink}}) if way == "out" else ("drop", {"drop": None})

    def plan(self) -> Act:
        """With the dummy device for what goes out."""
        act = super().plan()
        made = Command(argv=(GUEST, "link", "make", ",".join(self.edges), "dummy", *self.own), name="link")
        gone = [Command(argv=(GUEST, "link", "release", "0", *self.own))] if self.own else []
        return Act(apply=(made, *act.apply), undo=(*act.undo, *gone), read=act.read)


def _up(reading: Reading, name: str) -> bool:
    shown = mapping(reading, "links").get(name)
    return isinstance(shown, dict) and shown.get("up") is True


def _a_faults(name: str) -> bool:
    return name.startswith("sc") and name[2:3].isdigit()


def everything() -> Iterator[Match | None]:
    """Every packet, by family."""
    yield Match("ip", None, None, None, None)
    yield Match("ip6", None, None, None, None)
    yield None
