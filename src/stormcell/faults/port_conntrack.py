"""`port.conntrack`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from stormcell.faults import _nft
from stormcell.faults._fields import Documented
from stormcell.faults._reading import mapping, numbers
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading


class PortConntrack(Documented):
    """The kernel's table of tracked connections is full: packets of connections that are not in it are dropped."""

    kind = "port.conntrack"
    needs = Needs(programs=("nft", "cat"), modules=("nf_tables", "nft_ct", "nf_conntrack"))
    counts = "packets dropped because the table was full"
    proves = "drop in /proc/net/stat/nf_conntrack, nf_conntrack_max, and the kernel log ('table full')"
    example: ClassVar[dict[str, Any]] = {"kind": "port.conntrack", "max": 16}

    max: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1
    """Connections that the table takes; those that are in it count and stay."""

    @property
    def table(self) -> str:
        """Of this fault alone."""
        return f"stormcell_port_conntrack_{self.number}"

    def rules(self) -> tuple[_nft.Rule, ...]:
        """They ask for the state, and so the kernel tracks."""
        return tuple(
            _nft.Rule(chain, f"{chain} new", None, "out", "accept", {"accept": None}, extra="ct state new")
            for chain in ("in", "out")
        )

    def plan(self) -> Act:
        """A table that asks for the state of connections: without one nothing is tracked."""
        chains = [("in", "type filter hook input priority -150;"), ("out", "type filter hook output priority -150;")]
        made = _nft.script("inet", self.table, chains, (), self.rules())
        return Act(
            apply=(
                Command(argv=(GUEST, "nft", "run"), name="nft", stdin=made),
                Command(argv=(GUEST, "conntable", "limit", self.id, str(self.max))),
            ),
            undo=(
                Command(argv=(GUEST, "conntable", "restore", self.id, "{before:max}")),
                _nft.delete("inet", self.table),
            ),
            read=(
                Command(argv=("cat", "/proc/sys/net/netfilter/nf_conntrack_max"), name="max"),
                _nft.READ,
                Command(argv=(GUEST, "conntable", "show", self.id), name="conntable"),
            ),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The limit is there and was not before, and connections are tracked."""
        shown = _nft.listed(during, "rule", "inet", self.table)
        was, now = before.text("max"), during.text("max")
        return (
            _nft.readable(before)
            and not _nft.listed(before, "table", "inet", self.table)
            and all(any(rule.stands(item) for item in shown) for rule in self.rules())
            and bool(was)
            and was != now == str(self.max)
            and mapping(during, "conntable").get("marked") is True
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Counted by the kernel since just before the limit was set."""
        return max(0, numbers(mapping(after, "conntable").get("since")).get("drop", 0))

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """Another limit, in place."""
        if not isinstance(to, PortConntrack):
            return None
        return (Command(argv=(GUEST, "conntable", "change", self.id, str(to.max))),)

    def conflicts(self, other: Fault) -> str | None:
        """There is one table."""
        if isinstance(other, PortConntrack):
            return "both limit the table of connections, and there is one"
        if hasattr(other, "proxy_port"):
            return "a redirection needs the table of connections, and its packets would be dropped"
        return None

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Limit, mark and rules."""
        gone = _nft.readable(undone) and not _nft.listed(undone, "table", "inet", self.table)
        same = bool(before.text("max")) and before.text("max") == undone.text("max")
        return gone and same and mapping(undone, "conntable").get("marked") is False

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """The kernel's own words."""
        now = mapping(after, "conntable")
        if not numbers(now):
            return ()
        said = [f"{name}: {count}" for name, count in numbers(now.get("since")).items()]
        lines = numbers(now).get("log", 0)
        said += [f"kernel log: 'nf_conntrack: table full, dropping packet' {lines} times"] if lines else []
        return (f"{numbers(now).get('entries', 0)} connections in the table at the end, of {self.max}", *said)

    def cannot_know(self) -> tuple[str, ...]:
        """What tracking does."""
        return (
            "in a machine that tracked no connections before, one that is open already is new to the table, and its "
            "packets are dropped like those of a new one",
            "a sender in this machine is told (EPERM), as it is on any machine whose table is full",
        )
