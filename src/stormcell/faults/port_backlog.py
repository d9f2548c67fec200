"""`port.backlog`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults import _nft
from stormcell.faults._fields import Placed, Port
from stormcell.faults._network import Family, Match
from stormcell.faults._reading import mapping, mappings, numbers
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading

OURS = "62000-65535"
SETTINGS = ("tcp_syncookies", "tcp_max_syn_backlog")
_FAMILIES: tuple[Family, ...] = ("ip", "ip6")
_MASKED = "tcp flags & 0x17"


class PortBacklog(Placed):
    """The listen queue of a port is full of half-open connections: the SYN of every new client is dropped.

    Clients try again after 1, 3, 7 ... seconds, and at last time out; connections that are open go on. Nothing gets as
    far as the queue of whole connections that accept(2) empties: a server that accepts nothing any more, so that this
    one fills by itself, is process.stop (or syscall.errno with `call: accept`).
    """

    kind = "port.backlog"
    needs = Needs(programs=("nft", "cat"), modules=("nf_tables", "tcp_diag"))
    counts = "SYNs of clients that the kernel dropped, the queue being full"
    proves = "ListenDrops in /proc/net/netstat, the SYNs that came against the answers that left, and the queue itself"
    example: ClassVar[dict[str, Any]] = {"kind": "port.backlog", "local_port": 5432}

    local_port: Port
    """The TCP port. Every socket that listens on it is filled."""

    @property
    def table(self) -> str:
        """Of this fault alone."""
        return f"stormcell_port_backlog_{self.number}"

    def rules(self) -> tuple[_nft.Rule, ...]:
        """Answers to our clients are dropped; SYNs of others, and the answers to these, are counted."""
        made = []
        for family in _FAMILIES:
            here = Match(family, "tcp", None, None, self.local_port)
            there = Match(family, "tcp", None, self.local_port, None)
            made += [
                _nft.Rule("in", f"{family} held", there, "in", "drop", {"drop": None}, "lo", f"tcp dport {OURS}"),
                _nft.Rule("in", f"{family} asked", here, "in", "accept", {"accept": None},
                          extra=f"tcp sport 0-61999 {_MASKED} == 0x2"),
                _nft.Rule("out", f"{family} answered", here, "out", "accept", {"accept": None},
                          extra=f"tcp dport 0-61999 {_MASKED} == 0x12"),
            ]  # fmt: skip
        return tuple(made)

    def plan(self) -> Act:
        """First the rules, then the clients; undone the other way round, so that no answer gets through."""
        chains = [("in", "type filter hook input priority -150;"), ("out", "type filter hook output priority -150;")]
        made = _nft.script("inet", self.table, chains, (), self.rules())
        place = (self.id, str(self.local_port))
        settings = tuple(Command(argv=("cat", f"/proc/sys/net/ipv4/{name}"), name=name) for name in SETTINGS)
        old = tuple(f"{{before:{name}}}" for name in SETTINGS)
        return Act(
            apply=(
                Command(argv=(GUEST, "nft", "run"), name="nft", stdin=made),
                Command(argv=(GUEST, "backlog", "fill", *place), timeout_s=60),
            ),
            undo=(Command(argv=(GUEST, "backlog", "clear", *place, *old)), _nft.delete("inet", self.table)),
            read=(*settings, _nft.READ, Command(argv=(GUEST, "backlog", "show", *place), name="backlog")),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Every queue is full, nobody answers with cookies, and the rules stand."""
        shown = _nft.listed(during, "rule", "inet", self.table)
        now = mapping(during, "backlog")
        queues = [numbers(queue) for queue in mappings(now.get("queues"))]
        settings = now.get("settings")
        return (
            _nft.readable(before)
            and not _nft.listed(before, "table", "inet", self.table)
            and mapping(before, "backlog").get("left") is False
            and all(any(rule.stands(item) for item in shown) for rule in self.rules())
            and now.get("running") is True
            and isinstance(settings, dict)
            and settings.get("tcp_syncookies") == "0"
            and bool(queues)
            and all(queue.get("half_open", 0) >= queue.get("full_at", queue.get("limit", 0) + 1) for queue in queues)
        )

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Half-open connections are forgotten after a minute and made anew: nine of ten are there."""
        kept = [numbers(queue) for queue in mappings(mapping(after, "backlog").get("queues"))]
        full = all(queue.get("half_open", 0) >= 0.9 * queue.get("limit", 1) for queue in kept)
        return bool(kept) and full and mapping(after, "backlog").get("running") is True

    def acted(self, during: Reading, after: Reading) -> int:
        """No more than the kernel dropped, and no more than came without an answer."""
        asked = sum(_nft.packets(after, "inet", self.table).get(f"{family} asked", 0) for family in _FAMILIES)
        answered = sum(_nft.packets(after, "inet", self.table).get(f"{family} answered", 0) for family in _FAMILIES)
        dropped = numbers(mapping(after, "backlog").get("dropped")).get("ListenDrops", 0)
        return max(0, min(asked - answered, dropped))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Rules and clients are gone, and the settings are back."""
        now = mapping(undone, "backlog")
        same = all(before.text(name) and before.text(name) == undone.text(name) for name in SETTINGS)
        gone = _nft.readable(undone) and not _nft.listed(undone, "table", "inet", self.table)
        return gone and same and now.get("left") is False and now.get("running") is False

    def conflicts(self, other: Fault) -> str | None:
        """Our clients have one range of ports."""
        return "both fill a queue from the same ports of ours" if isinstance(other, PortBacklog) else None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Queues and counters."""
        now = mapping(after, "backlog")
        said = [
            f"{queue.get('address')}: {queue.get('half_open')} half-open connections in a queue of {queue.get('limit')}"
            for queue in mappings(now.get("queues"))
        ]
        said += [f"{name}: {count}" for name, count in numbers(now.get("dropped")).items()]
        counted = _nft.packets(after, "inet", self.table) if after else {}
        return (*said, *(f"{label}: {count} packets" for label, count in counted.items() if count))

    def cannot_know(self) -> tuple[str, ...]:
        """What is switched off for it."""
        return (
            "SYN cookies are off while the fault lasts, for the whole machine: with them a full queue refuses nobody",
            "a client whose SYN comes just when a half-open connection is forgotten may get in",
        )
