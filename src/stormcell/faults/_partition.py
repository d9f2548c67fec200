"""What the faults share that part a machine from its peers: which connections, and who can be reached."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from typing import Any, Literal, Self

from pydantic import model_validator

from stormcell.faults import _nft
from stormcell.faults._network import Match, Traffic, Way, hides
from stormcell.faults._queue import Queue
from stormcell.faults._reading import mapping
from stormcell.faults._table import Table
from stormcell.spec.fault import GUEST, Act, Command, Fault, Reading

NEW = (
    "tcp flags & (fin | syn | rst | ack) == syn",
    {
        "match": {
            "op": "==",
            "left": {"&": [{"payload": {"protocol": "tcp", "field": "flags"}}, ["fin", "syn", "rst", "ack"]]},
            "right": "syn",
        }
    },
)
OPEN = (
    "tcp flags & syn == 0",
    {"match": {"op": "!", "left": {"payload": {"protocol": "tcp", "field": "flags"}}, "right": "syn"}},
)
DEADLINE_S = 0.5


class Partition(Traffic, Table):
    """A fault that takes packets away, silently or not."""

    connections: Literal["all", "new", "established"] = "all"
    """TCP: `new` meets the packets that open a connection (SYN) and leaves those that are open alone, `established`
    the other way round. By the flags in the packet: connection tracking, which would take a connection from before
    the fault for a new one, is not used."""
    reach: bool = True
    """With a remote port and addresses or host names: try to connect to each before, under and after the fault, and
    put the answers into the receipt. These attempts do not count as acted."""

    @model_validator(mode="after")
    def _connections_are_tcp(self) -> Self:
        if self.connections != "all" and self.protocol not in (None, "tcp"):
            raise ValueError(f"only TCP has connections; with protocol {self.protocol} leave 'connections' out")
        return self

    def matches(self) -> tuple[Match, ...]:
        """Connections mean TCP."""
        if self.connections != "all" and self.protocol is None:
            return self.model_copy(update={"protocol": "tcp"}).matches()
        return super().matches()

    def picks(self) -> tuple[str, tuple[dict[str, Any], ...]]:
        """By TCP flags."""
        if self.connections == "all":
            return "", ()
        text, shown = NEW if self.connections == "new" else OPEN
        return text, (shown,)

    def targets(self) -> tuple[str, ...]:
        """Who is tried: `tcp/ADDRESS/PORT`."""
        if not self.reach or self.remote_port is None:
            return ()
        protocol = self.protocol or "tcp"
        single = [one for one in self.address if ipaddress.ip_network(one).num_addresses == 1]
        return tuple(f"{protocol}/{place}/{self.remote_port}" for place in (*single, *self.host))

    def plan(self) -> Act:
        """The reading also tries to reach the peers, and counts once more after that."""
        act = super().plan()
        if not self.targets():
            return act
        tried = Command(argv=(GUEST, "reach", f"{DEADLINE_S:g}", *self.targets()), name="reach")
        again = _nft.READ.model_copy(update={"name": "counted"})
        return act.model_copy(update={"read": (*act.read, tried, again)})

    def acted(self, during: Reading, after: Reading) -> int:
        """Packets counted by the rules; when peers were tried, those between two attempts of ours."""
        count = super().acted(during, after)
        if not self.targets():
            return count
        first = _nft.packets(during, self.family, self.table, "counted")
        return max(0, count - sum(first.values())) if first else 0

    def conflicts(self, other: Fault) -> str | None:
        """One would take everything that the other means."""
        if isinstance(other, Queue) and set(other.ways) <= set(self.foremost) and self._takes_all(other):
            return f"{self.kind} takes every packet away that {other.kind} means; let them follow each other"
        if isinstance(other, Partition):
            for one, two in ((self, other), (other, self)):
                if one._takes_all(two):
                    return f"{one.kind} takes every packet away that {two.kind} means; let them follow each other"
        return None

    @property
    def foremost(self) -> tuple[Way, ...]:
        """The directions in which it comes before the queues."""
        return self.ways

    def _takes_all(self, other: Traffic) -> bool:
        return self.connections == "all" and hides(self, other)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who could be reached, before, under, and at the end of the fault."""
        return (*super().notes(before, during, after), *self._matrix(before, during, after))

    def _matrix(self, *readings: Reading | None) -> Iterator[str]:
        answers = [mapping(reading, "reach") for reading in readings]
        for target in sorted({name for answer in answers for name in answer}):
            said = [str(answer.get(target, "not tried")) for answer in answers]
            yield f"reach {target}: {said[0]} before, {said[1]} under the fault, {said[2]} at its end"
