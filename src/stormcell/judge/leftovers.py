"""What differs in the guest after the last undo: what is surely a fault's, what may be, and what cannot be.

A fault judges what it made itself (`not_recovered`). The inventory is wider: it also sees what the workload changed
meanwhile. So a difference is a finding when it carries a mark of ours, or lies where a fault of this run works;
every other one is told among what the run cannot know.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stormcell.judge.case import Case

MARK = "stormcell"
"""In the name of every table, group, device and file that a fault makes."""
OURS = ("processes",)
"""Parts of the inventory that list nothing but what faults made."""
MOST_NAMED = 5

_NETWORK = frozenset({"queues", "rules", "links", "routes", "sysctls"})
_GROUPS = frozenset({"cgroups", "sysctls", "processors", "swaps"})
_DISKS = frozenset({"mounts", "devices", "files", "cgroups"})
WORKS_ON: Mapping[str, frozenset[str]] = {
    "net": _NETWORK, "dns": _NETWORK | {"files"}, "tls": _NETWORK, "http": _NETWORK, "port": _NETWORK,
    "cpu": _GROUPS, "memory": _GROUPS | {"mounts"}, "process": _GROUPS,
    "disk": _DISKS | {"sysctls"}, "block": _DISKS, "io": _DISKS, "file": _DISKS | {"programs"},
    "syscall": frozenset({"programs", "cgroups"}), "clock": frozenset({"clocks", "files"}),
    "machine": frozenset({"links", "routes", "clocks", "processors", "devices"}),
}  # fmt: skip
"""The parts of the inventory in which a family of faults works. A family that is not here may work anywhere."""
SEEN_TO: Mapping[str, frozenset[str]] = {"machine.pause": frozenset({"clocks"})}
"""Parts that differ when a fault is well undone, and that its own reading judges: by the host's wall clock, while the
guest's elapsed time has missed the pause for good."""


def left_behind(case: Case) -> Iterator[str]:
    """What is a fault's, or may be."""
    found = [(item, _whose(item, case)) for item in _differences(case)]
    told = [(item, whose) for item, whose in found if whose]
    for item, whose in told[:MOST_NAMED]:
        yield f"{_sentence(item)}: {whose}"
    if len(told) > MOST_NAMED:
        yield f"after the undo {len(told) - MOST_NAMED} more things differ from before"


def others(case: Case) -> Iterator[str]:
    """What no fault of this run works on, in sentences."""
    rest = [item for item in _differences(case) if not _whose(item, case)]
    for item in rest[:MOST_NAMED]:
        yield f"{_sentence(item)}: no fault of this run works there, so the workload, or the guest itself, changed it."
    if len(rest) > MOST_NAMED:
        yield f"{len(rest) - MOST_NAMED} more things that no fault of this run works on differ from before."


def _whose(item: Mapping[str, Any], case: Case) -> str:
    """Empty: nobody's of this run's faults."""
    what = str(item.get("what"))
    if what in OURS or MARK in f"{item.get('name')} {item.get('undone')}":
        return "it is the fault's own"
    near = [fault for fault in case.planned_faults if what in _parts(case.plan.faults[fault].kind, what)]
    if not near:
        return ""
    names = " and ".join(case.called(fault) for fault in near)
    return f"{names} may have left it, or a process of the workload did it"


def _parts(kind: str, what: str) -> frozenset[str]:
    return WORKS_ON.get(kind.partition(".")[0], frozenset({what}))


def _differences(case: Case) -> list[Mapping[str, Any]]:
    kinds = (case.plan.faults[fault].kind for fault in case.planned_faults)
    seen_to = frozenset[str]().union(*(SEEN_TO.get(kind, ()) for kind in kinds))
    return [
        item
        for event in case.of("inventory", "guest")
        if event.get("label") == "undone"
        for item in event.get("differences") or ()
        if isinstance(item, Mapping) and str(item.get("what")) not in seen_to
    ]


def _sentence(item: Mapping[str, Any]) -> str:
    was, now = (_short(item.get(key)) for key in ("before", "undone"))
    return f"after the undo, in {item.get('what')}, '{_short(item.get('name'))}' was {was} and is {now}"


def _short(value: object) -> str:
    text = "not there" if value is None else " ".join(str(value).split()) or "empty"
    return text if len(text) <= 120 else f"{text[:117]}..."
