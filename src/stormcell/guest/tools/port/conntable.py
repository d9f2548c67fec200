"""`stormcell-guest conntable`: the kernel's table of connections takes no more than so many."""

from __future__ import annotations

from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, kernellog

MAX = "/proc/sys/net/netfilter/nf_conntrack_max"
COUNT = "/proc/sys/net/netfilter/nf_conntrack_count"
STATISTICS = "/proc/net/stat/nf_conntrack"
FULL = "nf_conntrack: table full, dropping packet"
_COUNTED = ("drop", "early_drop", "insert_failed")


def limit(fault: str, most: str) -> dict[str, Any]:
    """Lower nf_conntrack_max, and remember the counters of that moment."""
    old = int(common.read_text(MAX) or "0")
    if old and int(most) >= old:
        raise ValueError(f"the table takes {old} connections already, not more than {most}")
    common.put_mark(_mark(fault), {"counters": statistics(), "log": kernellog.last()})
    write_file(MAX, f"{most}\n")
    return {"was": old, "entries": int(common.read_text(COUNT) or "0")}


def change(fault: str, most: str) -> None:
    """Another limit, in place."""
    write_file(MAX, f"{most}\n")


def restore(fault: str, most: str) -> None:
    """As it was; may be said twice."""
    if most:
        write_file(MAX, f"{most}\n")
    common.drop_mark(_mark(fault))


def show(fault: str) -> dict[str, Any]:
    """The limit, what is in the table, and what was dropped for want of room since the act."""
    mark = common.get_mark(_mark(fault))
    now = statistics()
    return {
        "max": int(common.read_text(MAX) or "0"),
        "entries": int(common.read_text(COUNT) or "0"),
        "marked": mark is not None,
        "since": {name: now[name] - mark["counters"][name] for name in _COUNTED} if mark else {},
        "log": sum(FULL in text for number, text in kernellog.records() if mark and number > mark["log"]),
    }


def statistics() -> dict[str, int]:
    """Sums over all processors (hexadecimal, a line each)."""
    lines = [line.split() for line in (common.read_text(STATISTICS) or "").splitlines()]
    names, rows = (lines[0], lines[1:]) if lines else ([], [])
    return {n: sum(int(row[names.index(n)], 16) for row in rows) if n in names else 0 for n in _COUNTED}


def _mark(fault: str) -> str:
    return f"{fault}.conntable"


def main(argv: list[str]) -> int:
    """`conntable limit|change|restore|show`."""
    verbs: dict[str, common.Verb] = {"limit": limit, "change": change, "restore": restore, "show": show}
    return common.serve("conntable", verbs, argv)
