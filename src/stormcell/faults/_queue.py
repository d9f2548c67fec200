"""Faults that are a queueing discipline (netem, tbf) in the way of some packets.

Out, every packet: the qdisc is the root of the device.
Out, some packets: the root is `prio` with four bands; its priority map knows the first three, so what no filter
steers never enters the fourth, where the qdisc stands.
In: an ingress hook redirects the packets to an `ifb` device of ours, and the qdisc is the root of that one.

Everything is added, never replaced: on a device that already has a qdisc or an ingress hook of somebody else the act
fails. The undo names our handles and priorities, so that it cannot take what is not ours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple

from stormcell.faults import _qdisc
from stormcell.faults._network import Match, Traffic, Way, same_network
from stormcell.spec.fault import Act, Command, Reading

ROOT = "5c01:"
BAND = "5c01:4"
LEAF = "5c02:"
INGRESS = "ffff:"
PREF = {"ip": 23553, "ip6": 23554, "all": 23553}
TC_PROTOCOL = {"ip": "ip", "ip6": "ipv6"}
LONGEST_DRAIN = 2.0
_NONE_BUT_REFUSED = (0, 1, 2)


class Place(NamedTuple):
    """Where a qdisc of ours stands: for the traffic of `device` in one direction, on `on` under `handle`."""

    device: str
    way: Way
    on: str
    handle: str


class Queue(Traffic):
    """A fault that delays, drops or shapes by a qdisc."""

    qdisc: ClassVar[str]
    counter: ClassVar[str]
    """The counter of `tc -s qdisc` that says it acted."""

    def discipline(self) -> str:
        """Kind and parameters as tc reads them."""
        raise NotImplementedError

    def idle(self) -> str:
        """The same without effect, to let out what waits in the queue before it is taken away. Empty: nothing waits."""
        return ""

    def drain_s(self) -> float:
        """How long what waits in the queue may need to leave it."""
        return 0.0

    def shows(self, options: dict[str, Any]) -> bool:
        """Do the options that the kernel shows agree with the parameters?"""
        raise NotImplementedError

    def places(self) -> tuple[Place, ...]:
        """Every qdisc of this fault."""
        return tuple(
            Place(device, way, device, LEAF if self.filtered else ROOT)
            if way == "out"
            else Place(device, way, f"sc-{self.kind.rpartition('.')[2]}{number}", ROOT)
            for number, device in enumerate(self.device)
            for way in self.ways
        )

    def plan(self) -> Act:
        """One program for tc, and one for ip when an ifb device is needed."""
        return Act(apply=tuple(self._apply()), undo=tuple(self._undo()), read=tuple(self._read()))

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Every qdisc is there with every parameter, and every filter that leads to it."""
        new = not any(_qdisc.qdisc(before, place.on, place.handle) for place in self.places())
        return new and all(self._stands(during, place) for place in self.places())

    def acted(self, during: Reading, after: Reading) -> int:
        """The counter of our own qdiscs, which began at zero with the act."""
        return sum(counted(after, place, self.counter) for place in self.places())

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The same qdiscs and filters on the devices as before, and none of our ifb devices."""
        ours = {place.on for place in self.places() if place.way == "in"}
        if not _qdisc.qdiscs(before) or not _qdisc.qdiscs(undone) or ours & _qdisc.links(undone):
            return False
        devices = (*self.device, *ours)
        return _qdisc.arrangement(before, devices) == _qdisc.arrangement(undone, devices)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What each qdisc counted."""
        if after is None:
            return ()
        return tuple(
            f"{place.way} on {place.device}: {self.qdisc} let through {counted(after, place, 'packets')} packets, "
            f"{counted(after, place, 'drops')} drops, {counted(after, place, 'overlimits')} overlimits"
            for place in self.places()
        )

    def cannot_know(self) -> tuple[str, ...]:
        """From the choice of packets."""
        return self.about_traffic()

    def _stands(self, reading: Reading, place: Place) -> bool:
        found = _qdisc.qdisc(reading, place.on, place.handle)
        options = found.get("options")
        if found.get("kind") != self.qdisc or not isinstance(options, dict) or not self.shows(options):
            return False
        if place.way == "out":
            return not self.filtered or (
                found.get("parent") == BAND
                and all(any(_steers(f, m, "out", BAND) for f in _qdisc.filters(reading)) for m in self.matches())
            )
        hooks = [f for f in _qdisc.filters(reading) if _redirects(f, place.on)]
        if not self.filtered:
            return any(hook.get("kind") == "matchall" for hook in hooks)
        return all(any(_steers(hook, match, "in", None) for hook in hooks) for match in self.matches())

    def _apply(self) -> Iterator[Command]:
        inward = [place for place in self.places() if place.way == "in"]
        if inward:
            made = [line for p in inward for line in (f"link add name {p.on} type ifb", f"link set dev {p.on} up")]
            yield Command(argv=("ip", "-batch", "-"), name="ip", stdin=_lines(made))
        lines = [line for place in self.places() for line in self._added(place)]
        yield Command(argv=("tc", "-batch", "-"), name="tc", stdin=_lines(lines))

    def _added(self, place: Place) -> Iterator[str]:
        if place.way == "out" and self.filtered:
            yield f"qdisc add dev {place.device} root handle {ROOT} prio bands 4"
            yield f"qdisc add dev {place.device} parent {BAND} handle {LEAF} {self.discipline()}"
            for match in self.matches():
                yield f"filter add dev {place.device} parent {ROOT} {flower(match, 'out')} classid {BAND}"
            return
        yield f"qdisc add dev {place.on} root handle {ROOT} {self.discipline()}"
        if place.way == "in":
            yield f"qdisc add dev {place.device} ingress"
            every = f"pref {PREF['all']} protocol all matchall"
            redirect = f"action mirred egress redirect dev {place.on}"
            for rule in [flower(match, "in") for match in self.matches()] or [every]:
                yield f"filter add dev {place.device} parent {INGRESS} {rule} {redirect}"

    def _undo(self) -> Iterator[Command]:
        outward = [place for place in self.places() if place.way == "out"]
        inward = [place for place in self.places() if place.way == "in"]
        if self.drain_s() and outward:
            freed = [line for place in outward for line in self._let_go(place)]
            yield _forced("tc", freed)
        for place in inward:  # unforced: the hook itself goes only if our own filter was in it
            first = next((match.family for match in self.matches()), "all")
            protocol = TC_PROTOCOL.get(first, "all")
            gone = [
                f"filter del dev {place.device} parent {INGRESS} pref {PREF[first]} protocol {protocol}",
                f"qdisc del dev {place.device} ingress",
            ]
            yield Command(argv=("tc", "-batch", "-"), stdin=_lines(gone), accept=_NONE_BUT_REFUSED)
        if drain := min(self.drain_s(), LONGEST_DRAIN):
            yield Command(argv=("sleep", f"{drain:.3f}"))
        if outward:
            yield _forced("tc", [f"qdisc del dev {place.device} root handle {ROOT}" for place in outward])
        if inward:
            yield _forced("ip", [f"link del dev {place.on}" for place in inward])

    def _let_go(self, place: Place) -> Iterator[str]:
        if self.filtered:
            yield f"filter del dev {place.device} parent {ROOT}"
        where = f"parent {BAND}" if self.filtered else "root"
        yield f"qdisc change dev {place.device} {where} handle {place.handle} {self.idle()}"

    def _read(self) -> Iterator[Command]:
        shows = ["qdisc show"]
        for device in self.device:
            if self.filtered and "out" in self.ways:
                shows.append(f"filter show dev {device} parent {ROOT}")
            if "in" in self.ways:
                shows.append(f"filter show dev {device} ingress")
        yield Command(argv=("tc", "-s", "-j", "-force", "-batch", "-"), name="tc", stdin=_lines(shows))
        if "in" in self.ways:
            yield Command(argv=("ip", "-j", "link", "show"), name="links")


def flower(match: Match, way: Way) -> str:
    """The classifier for one match, as tc reads it."""
    words = [f"pref {PREF[match.family]} protocol {TC_PROTOCOL[match.family]} flower"]
    if match.protocol:
        words.append(f"ip_proto {_ip_proto(match)}")
    names = {"dst": "dst_ip", "src": "src_ip", "dport": "dst_port", "sport": "src_port"}
    words += [f"{names[end]} {value}" for end, value in match.ends(way).items()]
    return " ".join(words)


def counted(reading: Reading, place: Place, counter: str) -> int:
    """A counter of our qdisc. 0 when it is not there."""
    value = _qdisc.qdisc(reading, place.on, place.handle).get(counter)
    return value if isinstance(value, int) else 0


def _ip_proto(match: Match) -> str:
    return "icmpv6" if match.protocol == "icmp" and match.family == "ip6" else str(match.protocol)


def _steers(shown: dict[str, Any], match: Match, way: Way, target: str | None) -> bool:
    options = shown["options"]
    keys = options.get("keys") if shown.get("kind") == "flower" else None
    if not isinstance(keys, dict) or (target and options.get("classid") != target):
        return False
    wanted: dict[str, Any] = {"eth_type": {"ip": "ipv4", "ip6": "ipv6"}[match.family]}
    if match.protocol:
        wanted["ip_proto"] = _ip_proto(match)
    names = {"dst": "dst_ip", "src": "src_ip", "dport": "dst_port", "sport": "src_port"}
    wanted |= {names[end]: value for end, value in match.ends(way).items()}
    return keys.keys() == wanted.keys() and all(
        same_network(keys[key], value) if key.endswith("_ip") else keys[key] == value for key, value in wanted.items()
    )


def _redirects(shown: dict[str, Any], device: str) -> bool:
    actions = shown["options"].get("actions")
    return isinstance(actions, list) and any(
        isinstance(a, dict) and a.get("kind") == "mirred" and a.get("to_dev") == device for a in actions
    )


def _forced(program: str, lines: list[str]) -> Command:
    """Every line is tried: after an act that failed half-way some of them have nothing to take."""
    return Command(argv=(program, "-force", "-batch", "-"), stdin=_lines(lines), accept=_NONE_BUT_REFUSED)


def _lines(lines: list[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
