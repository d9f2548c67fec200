"""What `nodes:` becomes: steps that make them, faults that act inside of one, addresses in place of names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stormcell.faults import CATALOGUE
from stormcell.faults._fields import Placed
from stormcell.faults._target import Target
from stormcell.spec.fault import GUEST, Act, Command, Fault
from stormcell.spec.nodes import Node, addresses, specs, unknown
from stormcell.spec.plan import RunStep

MADE_S, STARTED_S, BEFORE_S = 120.0, 30.0, 15.0
"""Deadlines, in seconds: to make all nodes, and beside `ready_within` for a node and for each service of one."""


def node_steps(nodes: Mapping[str, Node]) -> Iterator[RunStep]:
    """All are made, then the services of one after the other are started."""
    if not nodes:
        return
    made = Command(argv=(GUEST, "node", "make"), stdin=json.dumps(specs(nodes)), timeout_s=MADE_S)
    yield RunStep(id="nodes", phase="setup", command=made)
    for name, node in nodes.items():
        if node.services:
            within = STARTED_S + sum(service.ready_within + BEFORE_S for service in node.services.values())
            command = Command(argv=(GUEST, "node", "start", name, f"{within:g}"), timeout_s=within + STARTED_S)
            yield RunStep(id=f"node.{name}", phase="setup", command=command)


def act_of(fault: Fault) -> Act:
    """What it compiles to, inside of its node when it has one."""
    act = fault.plan()
    parts = {part: in_node(fault, getattr(act, part)) for part in ("apply", "undo", "read", "warm")}
    return Act(**parts)


def in_node(fault: Fault, commands: Sequence[Command]) -> tuple[Command, ...]:
    """The same commands, run there."""
    node = node_of(fault)
    return tuple(commands) if node is None else tuple(one.model_copy(update={"node": node}) for one in commands)


def node_of(fault: Fault) -> str | None:
    """The node that it is for."""
    node: str | None = getattr(fault, "node", None)
    return node


def in_different_nodes(one: Fault, other: Fault) -> bool:
    """Two that cannot meet each other: each is in a node of its own, or one has a node's network and the other the
    machine's."""
    if not (isinstance(one, Placed) and isinstance(other, Placed)) or one.node == other.node:
        return False
    return None not in (one.node, other.node) or not (isinstance(one, Target) or isinstance(other, Target))


class Misplaced(Exception):
    """What a fault's mapping says about nodes and cannot be meant; `field` is where."""

    def __init__(self, field: str, what: str, rule: str = "", remedy: str = "") -> None:
        super().__init__(what)
        self.field = field
        self.what = what
        self.rule = rule
        self.remedy = remedy


def resolved(mapping: Mapping[str, Any], nodes: Mapping[str, Node]) -> dict[str, Any]:
    """A fault's mapping with addresses in place of `to` and `between`. Raises Misplaced.

    `between: [a, b]` is `node: a, to: b, direction: both`.
    """
    given = dict(mapping)
    kind = given.get("kind")
    if not {"node", "to", "between"} & given.keys() or not isinstance(kind, str) or kind not in CATALOGUE:
        return given
    fields = CATALOGUE[kind].model_fields
    for name in ("node", "to", "between"):
        if name in given:
            _check_kind(kind, name, fields)
    if "between" in given:
        given = _pair(given)
    if "node" in given and given["node"] is not None:
        _known("node", given["node"], nodes)
    if "to" in given:
        given = _towards(given, nodes)
    return given


def _check_kind(kind: str, name: str, fields: Mapping[str, Any]) -> None:
    if "node" not in fields:
        raise Misplaced(
            name, f"{kind} is about the whole machine and knows no node", remedy=f"kinds that do: {_knowing('node')}"
        )
    if name != "node" and "address" not in fields:
        raise Misplaced(
            name,
            f"{kind} does not choose by the peer's address, so it cannot be about a pair of nodes",
            remedy=f"write node alone, or take a kind that does: {_knowing('address')}",
        )
    if name == "between" and "direction" not in fields:
        raise Misplaced(name, f"{kind} knows no direction, so it cannot be about both ways between two nodes",
                        remedy=f"write node and to, or take a kind that does: {_knowing('direction')}")  # fmt: skip


def _pair(given: dict[str, Any]) -> dict[str, Any]:
    pair = given.pop("between")
    if clash := sorted({"node", "to", "direction"} & given.keys()):
        what = f"it says all that '{clash[0]}' says; write one of the two"
        raise Misplaced("between", what, rule="between: [a, b] is node: a, to: b, direction: both")
    if not isinstance(pair, list | tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
        raise Misplaced("between", "it takes two nodes; write for example between: [a, b]")
    return given | {"node": pair[0], "to": pair[1], "direction": "both"}


def _towards(given: dict[str, Any], nodes: Mapping[str, Node]) -> dict[str, Any]:
    peers = given.pop("to")
    peers = [peers] if isinstance(peers, str) else list(peers) if isinstance(peers, list | tuple) else []
    if not peers or not all(isinstance(name, str) for name in peers):
        raise Misplaced("to", "it takes a node, or a list of them; write for example to: b")
    if given.get("node") is None:
        raise Misplaced("to", "it needs a 'node', whose packets are meant; write for example node: a, to: b")
    for name in ("address", "host"):
        if name in given:
            raise Misplaced("to", f"'to' and '{name}' both say whose packets are meant; write one of the two")
    for peer in peers:
        _known("to", peer, nodes)
        if peer == given["node"]:
            raise Misplaced("to", f"'{peer}' is the node itself: what it sends to itself never leaves it")
    places = addresses(nodes)
    return given | {"address": [places[peer] for peer in dict.fromkeys(peers)]}


def _known(field: str, name: Any, nodes: Mapping[str, Node]) -> None:
    if not isinstance(name, str) or name not in nodes:
        raise Misplaced(field, unknown(str(name), nodes))


def _knowing(field: str) -> str:
    """Kinds with `node` and that field, by family where all of one have it."""
    families: dict[str, list[tuple[str, bool]]] = {}
    for kind, fault in CATALOGUE.items():
        if not fault.unavailable:
            known = {"node", field} <= fault.model_fields.keys()
            families.setdefault(kind.partition(".")[0], []).append((kind, known))
    said: list[str] = []
    for family, kinds in families.items():
        good = [kind for kind, known in kinds if known]
        said += [f"{family}.*"] if len(good) == len(kinds) > 1 else good
    return ", ".join(said)
