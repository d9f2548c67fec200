"""Faults that are a queueing discipline (netem, tbf) in the way of some packets.

The qdisc is the root of an `ifb` device of the fault's own, and a table of its own at the egress or ingress hook of the
device forwards the packets there; they come back behind the hook. So the qdiscs and filters of the device itself are
left alone, whoever they belong to, several faults stand side by side on one device, and to take one of them away
drops no packet of anybody else.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Self

from stormcell.faults import _nft, _qdisc
from stormcell.faults._network import Match, Traffic, Way, meets
from stormcell.faults._reading import mapping, numbers
from stormcell.faults._table import EGRESS_OF_LO, Edge, everything
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading

HANDLE = "5c01:"
LONGEST_DRAIN = 2.0
MILLION = 1_000_000


class Place(NamedTuple):
    """Where a qdisc of ours stands: for the traffic of `device` in one direction, on the ifb device `on`."""

    device: str
    way: Way
    on: str
    chain: str


def needs(*modules: str) -> Needs:
    """Those of every queue fault, and these modules."""
    shared = ("ifb", "nf_tables", "nft_fwd_netdev", "sch_ingress", "cls_matchall")
    return Needs(programs=("tc", "nft"), modules=(*modules, *shared))


class Queue(Traffic, Edge):
    """A fault that delays, drops or shapes by a qdisc."""

    counter: ClassVar[str]
    """The counter of `tc -s qdisc` that says it acted."""
    priority: ClassVar[int] = -390

    def discipline(self) -> str:
        """Kind and parameters as tc reads them."""
        raise NotImplementedError

    def idle(self) -> str:
        """The same without effect, to let out what waits in the queue before it is taken away. Empty: no need."""
        return ""

    def drain_s(self) -> float:
        """How long what waits in the queue may need to leave it."""
        return 0.0

    def shows(self, options: dict[str, Any]) -> bool:
        """Do the options that the kernel shows agree with the parameters?"""
        raise NotImplementedError

    @property
    def qdisc(self) -> str:
        """Its kind."""
        return self.discipline().split()[0]

    @property
    def edges(self) -> tuple[str, ...]:
        """The devices."""
        return self.device

    @property
    def own(self) -> tuple[str, ...]:
        """The ifb devices."""
        return tuple(place.on for place in self.places())

    def packets(self) -> tuple[Match | None, ...]:
        """What the filter says, or everything."""
        return self.matches() or tuple(everything())

    def verdict(self, way: Way, number: int) -> tuple[str, dict[str, Any]]:
        """To the ifb device."""
        name = self._ifb(way, number)
        return f'fwd to "{name}"', {"fwd": {"dev": name}}

    def places(self) -> tuple[Place, ...]:
        """Every qdisc of this fault."""
        return tuple(
            Place(device, way, self._ifb(way, number), f"{way}{number}")
            for number, device in enumerate(self.device)
            for way in self.ways
        )

    def plan(self) -> Act:
        """The ifb devices, their qdiscs, and the table last; backwards in the undo."""
        act = super().plan()
        made = Command(argv=(GUEST, "link", "make", ",".join(self.edges), "ifb", *self.own), name="link")
        queues = _tc("qdisc add", self.places(), self.discipline())
        freed = [_forced(_tc("qdisc change", self.places(), self.idle()))] if self.idle() else []
        drain = f"{min(self.drain_s(), LONGEST_DRAIN):.3f}"
        gone = Command(argv=(GUEST, "link", "release", drain, *self.own))
        shows = "qdisc show\n" + (EGRESS_OF_LO if self.hooked else "")
        shown = Command(argv=(GUEST, "tc", "-s", "-j", "-batch", "-"), name="tc", stdin=shows)
        read = [command for command in act.read if command.name != "tc"]
        return Act(apply=(made, queues, *act.apply), undo=(*act.undo, *freed, gone), read=(shown, *read))

    def change(self, to: Self) -> tuple[Command, ...] | None:
        """The qdiscs, in place. Which packets they meet cannot be changed so."""
        same = (to.packets(), to.places(), to.picks(), to.host) == (
            self.packets(),
            self.places(),
            self.picks(),
            self.host,
        )
        keeps = self.parts() - to.parts()  # netem keeps a part that a change does not name
        alike = to.qdisc == self.qdisc and not keeps
        return (_tc("qdisc change", to.places(), to.discipline()),) if same and alike else None

    def parts(self) -> set[str]:
        """The words of the discipline: which parts it has, without their amounts."""
        return {word for word in self.discipline().split() if word.isalpha()}

    def conflicts(self, other: Fault) -> str | None:
        """A packet goes through one queue of ours for each device and direction."""
        if isinstance(other, Queue) and (where := meets(self, other)):
            return (
                f"some packets would meet both, {where}, and a packet goes through one of these queues only; "
                "use net.impair, which does several things to the same packets, or choose packets that do not overlap "
                "(address, host, port, protocol)"
            )
        return None if isinstance(other, Queue) or not isinstance(other, Traffic) else other.conflicts(self)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Every qdisc is there with every parameter, and every rule that leads to it."""
        return super().in_force(before, during) and all(self._stands(during, place) for place in self.places())

    def acted(self, during: Reading, after: Reading) -> int:
        """The counter of our own qdiscs, which began at zero with the act."""
        return sum(counted(after, place, self.counter) for place in self.places())

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What each qdisc counted."""
        if after is None:
            return ()
        said = [
            f"{place.way} on {place.device}: {self.qdisc} let through {counted(after, place, 'packets')} packets, "
            f"{counted(after, place, 'drops')} drops, {counted(after, place, 'overlimits')} overlimits"
            for place in self.places()
        ]
        waiting = sum(counted(after, place, "qlen") for place in self.places())
        said += [f"{waiting} packets were waiting when the undo began"] if waiting else []
        return (*said, *super().notes(before, during, after))

    def cannot_know(self) -> tuple[str, ...]:
        """From the choice of packets."""
        return self.about_traffic()

    def entered(self, reading: Reading, place: Place) -> int:
        """Packets that were sent into the queue, each segment of offload as one with its packet."""
        rules = {rule.label for rule in self.rules() if rule.chain == place.chain}
        return sum(n for label, n in _nft.packets(reading, self.family, self.table).items() if label in rules)

    def left(self, reading: Reading, place: Place) -> int:
        """Packets that came out of the queue, counted in the same way: by the ifb device, as received."""
        return numbers(mapping(reading, "links").get(place.on)).get("rx_packets", 0)

    def _ifb(self, way: Way, number: int) -> str:
        return f"sc{self.number}-{way}{number}"

    def _stands(self, during: Reading, place: Place) -> bool:
        shown = _qdisc.qdisc(during, place.on, HANDLE)
        options = shown.get("options")
        return shown.get("kind") == self.qdisc and isinstance(options, dict) and self.shows(options)


def counted(reading: Reading, place: Place, counter: str) -> int:
    """A counter of our qdisc. 0 when it is not there."""
    value = _qdisc.qdisc(reading, place.on, HANDLE).get(counter)
    return value if isinstance(value, int) else 0


def share(percent: float) -> tuple[str, tuple[dict[str, Any], ...]]:
    """The condition on a random share of the packets, as nft reads and as it shows it. None for all of them."""
    bound = round(percent / 100 * MILLION)
    if bound >= MILLION:
        return "", ()
    left = {"numgen": {"mode": "random", "mod": MILLION, "offset": 0}}
    return f"numgen random mod {MILLION} < {bound}", ({"match": {"op": "<", "left": left, "right": bound}},)


def _tc(verb: str, places: tuple[Place, ...], discipline: str) -> Command:
    lines = _lines(f"{verb} dev {place.on} root handle {HANDLE} {discipline}" for place in places)
    return Command(argv=(GUEST, "tc", "-batch", "-"), name="tc", stdin=lines)


def _forced(command: Command) -> Command:
    """Every line is tried: after an act that failed half-way some devices are not there."""
    return command.model_copy(update={"argv": (GUEST, "tc", "-force", "-batch", "-"), "name": "", "accept": (0, 1, 2)})


def _lines(lines: Iterator[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
