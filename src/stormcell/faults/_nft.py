"""Rules in a table of our own: made in one transaction, counted one by one, deleted whole.

`create table` fails when a table of that name is there, so nothing of an earlier fault is overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from stormcell.faults._network import Match, Way, same_network
from stormcell.faults._reading import mapping, mappings, numbers, texts
from stormcell.spec.fault import GUEST, Command, Reading

L4 = {("icmp", "ip6"): "ipv6-icmp"}
_NAME_OF_DEVICE = {"out": "oifname", "in": "iifname"}


@dataclass(frozen=True)
class Rule:
    """One rule: `match` None means every packet.

    `verdict` is what is done, as nft reads it, and `shown` the same as nft shows it; `device` is the condition on the
    device in families that see all of them; `extra` is a further condition (a share of the packets, TCP flags).
    """

    chain: str
    label: str
    match: Match | None
    way: Way
    verdict: str
    shown: dict[str, Any]
    device: str = ""
    extra: str = ""
    wanted: tuple[dict[str, Any], ...] = ()
    """How nft shows the further condition."""
    sees: bool = False
    """Count also what the further condition lets by."""

    def text(self) -> str:
        """As `nft -f` reads it, without `add rule`. Every rule counts."""
        device = f'{_NAME_OF_DEVICE[self.way]} "{self.device}"' if self.device else ""
        seen = "counter" if self.sees else ""
        words = [expression(self.match, self.way), device, seen, self.extra, "counter", self.verdict]
        words.append(f'comment "{self.label}"')
        return " ".join(word for word in words if word)

    def stands(self, shown: dict[str, Any]) -> bool:
        """Does the kernel's rule have our label, verdict, and every value of the match?"""
        if shown.get("comment") != self.label or shown.get("chain") != self.chain:
            return False
        statements = mappings(shown.get("expr"))
        matched = mappings([statement.get("match") for statement in statements])
        return all(one in statements for one in (self.shown, *self.wanted)) and all(
            any(_agrees(match, field, value) for match in matched) for field, value in self._conditions()
        )

    def _conditions(self) -> Iterator[tuple[str, str | int]]:
        """(field, value) that the kernel must show."""
        if self.device:
            yield _NAME_OF_DEVICE[self.way], self.device
        if self.match is not None:
            if self.match.protocol:
                yield "protocol", L4.get((self.match.protocol, self.match.family), self.match.protocol)
            for end, value in self.match.ends(self.way).items():
                yield {"dst": "daddr", "src": "saddr"}.get(end, end), value


def expression(match: Match | None, way: Way) -> str:
    """The conditions of one match, as nft reads them."""
    if match is None:
        return ""
    words = []
    if not match.address:
        words.append(f"meta protocol {match.family}")
    if match.protocol:
        words.append(f"meta l4proto {L4.get((match.protocol, match.family), match.protocol)}")
    for end, value in match.ends(way).items():
        words.append(f"{match.family} {end[0]}addr {value}" if end in ("dst", "src") else f"th {end} {value}")
    return " ".join(words)


Pairs = Iterable[tuple[str, str]]


def script(family: str, table: str, chains: Pairs, passes: Pairs, rules: Iterable[Rule], sets: Pairs = ()) -> str:
    """The whole table as one transaction.

    `chains` are (name, hook), `passes` (chain, rule without a counter), `sets` (name, type of its elements).
    """
    lines = [f"create table {family} {table}"]
    lines += [f"add set {family} {table} {name} {{ type {kind}; }}" for name, kind in sets]
    lines += [f"add chain {family} {table} {name} {{ {hook} policy accept; }}" for name, hook in chains]
    lines += [f"add rule {family} {table} {chain} {text}" for chain, text in passes]
    lines += [f"add rule {family} {table} {rule.chain} {rule.text()}" for rule in rules]
    return "".join(f"{line}\n" for line in lines)


READ = Command(argv=(GUEST, "nft", "list"), name="nft")
"""The whole ruleset: unlike one table's, it can be listed when the table is not there."""


def delete(family: str, table: str) -> Command:
    """Takes the table away; after an act that failed there may be none."""
    return Command(argv=(GUEST, "nft", "run"), stdin=f"delete table {family} {table}\n", accept=(0, 1))


def listed(reading: Reading, what: str, family: str, table: str, name: str = "nft") -> list[dict[str, Any]]:
    """The tables, chains, sets or rules of our table, as the command `name` listed them."""
    items = mappings(mapping(reading, name).get("nftables"))
    key = "name" if what == "table" else "table"
    found = mappings([item.get(what) for item in items])
    return [item for item in found if item.get("family") == family and item.get(key) == table]


def packets(reading: Reading, family: str, table: str, name: str = "nft") -> dict[str, int]:
    """Packets that each rule of our table did something to, by its label."""
    return {label: counts[-1] for label, counts in _counters(reading, family, table, name).items()}


def seen(reading: Reading, family: str, table: str) -> dict[str, int]:
    """Packets that each rule was asked about, by its label: with a share, more than it did something to."""
    return {label: counts[0] for label, counts in _counters(reading, family, table, "nft").items()}


def _counters(reading: Reading, family: str, table: str, name: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for rule in listed(reading, "rule", family, table, name):
        counts = [numbers(statement.get("counter")).get("packets") for statement in mappings(rule.get("expr"))]
        if numbered := [count for count in counts if count is not None]:
            found[str(rule.get("comment", ""))] = numbered
    return found


def elements(reading: Reading, family: str, table: str, name: str) -> set[str]:
    """The addresses in a set of our table."""
    of_name = [one for one in listed(reading, "set", family, table) if one.get("name") == name]
    return {item for one in of_name for item in texts(one.get("elem"))}


def readable(reading: Reading) -> bool:
    """Did nft answer at all?"""
    return bool(mapping(reading, "nft"))


def _agrees(match: dict[str, Any], field: str, value: str | int) -> bool:
    left, right = match.get("left"), match.get("right")
    payload = left.get("payload") if isinstance(left, dict) else None
    meta = left.get("meta") if isinstance(left, dict) else None
    if isinstance(payload, dict) and field == "protocol" and payload.get("protocol") == value:
        return True  # nft shows `meta l4proto tcp th dport 53` as `tcp dport 53`
    if match.get("op") != "==":
        return False
    if isinstance(payload, dict):
        return payload.get("field") == field and _same(value, right)
    key = meta.get("key") if isinstance(meta, dict) else None
    return key == ("l4proto" if field == "protocol" else field) and right == value


def _same(wanted: str | int, shown: Any) -> bool:
    if isinstance(shown, dict) and isinstance(prefix := shown.get("prefix"), dict):
        shown = f"{prefix.get('addr')}/{prefix.get('len')}"
    return wanted == shown or (isinstance(wanted, str) and same_network(wanted, shown))
