"""Set limits of a cgroup and show its files. `set` first remembers what was there, so that the undo needs nothing else.

A value is what the kernel takes, or a form of it that depends on the guest; what it depends on is kept as `basis`:
`20%/100000:quota` (cpu.max: share/period, of the tightest quota above or else of one CPU; `:cpu` of one CPU, `:cpus`
of all), `+5` (so much more than is used now) and `first:1` (the first CPUs of those that it may use).
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Sequence
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import claims, common, groups, kernellog, targets

_SHARE = re.compile(r"([0-9.]+)%/(\d+):(quota|cpus?)\Z")
_KILLS = "memory.events"
"""The counters that tell of processes killed for memory; only then is the kernel's log read."""
_USED = {"pids.max": "pids.current", "memory.max": "memory.current", "memory.high": "memory.current"}


def set_limits(mark: str, counters: str, by: str, what: str, *values: str) -> dict[str, Any]:
    """Write FILE=VALUE for each; the text of `counters` (in the same folder) is kept as it was before."""
    folder = groups.in_place(by, what)
    known: dict[str, Any] = {"moved": []}
    if folder is not None:
        groups.existing(by, what)
        for name in (value.partition("=")[0] for value in values):
            claims.take(mark, [f"{os.path.realpath(folder)}/{name}"], f"{name} of {folder}", "set")
        known["targets"] = [process.as_dict() for process in targets.find(by, what)]
    else:
        folder = f"{groups.OURS}/{mark}"
        found = groups.victims(by, what)
        if os.path.isdir(folder):
            raise ValueError(f"{folder} is already there")
        known["targets"] = [process.as_dict() for process in found]
        known |= {"folder": folder, "made": True}
        common.put_mark(mark, known)

        def remember(moved: list[dict[str, Any]]) -> None:
            known["moved"] = moved
            common.put_mark(mark, known)

        groups.move_in(folder, found, lambda: targets.find(by, what), remember)
    asked = dict(value.split("=", 1) for value in values)
    known |= {
        "folder": folder,
        "previous": {name: (common.read_text(f"{folder}/{name}") or "").strip() for name in asked},
        "counters": _counters(folder, counters),
        "log": kernellog.last() if counters == _KILLS else -1,
    }
    for name in asked:
        if not os.path.exists(f"{folder}/{name}"):
            raise ValueError(f"the cgroup {folder} has no {name}: its parent does not give it that controller")
    known["basis"] = {name: _basis(folder, name, value) for name, value in asked.items()}
    common.put_mark(mark, known)
    for name, value in asked.items():
        write_file(f"{folder}/{name}", _value(name, value, known["basis"][name]))
    return {"folder": folder, "files": groups.files(folder, list(asked))}


def change(mark: str, *values: str) -> dict[str, Any]:
    """Write other values in place of those that `set` wrote."""
    known = common.get_mark(mark)
    if not known:
        raise ValueError("there is no limit in force that could be changed")
    folder = known["folder"]
    asked = dict(value.split("=", 1) for value in values)
    for name, value in asked.items():
        write_file(f"{folder}/{name}", _value(name, value, known["basis"].get(name)))
    return {"folder": folder, "files": groups.files(folder, list(asked))}


def restore(mark: str) -> None:
    """Put the values back, move back who was moved, forget the mark. May be said twice."""
    known = common.get_mark(mark)
    claims.drop(mark)
    if not known:
        return
    folder = known["folder"]
    if known.get("made"):
        groups.move_out(folder, known["moved"])
    elif os.path.isdir(folder):
        for name, value in (known.get("previous") or {}).items():
            _put_back(mark, folder, name, value)
    common.drop_mark(mark)


def _put_back(mark: str, folder: str, name: str, value: str) -> None:
    """The kernel takes an empty set of CPUs only where nobody is (validate_change in kernel/cgroup/cpuset.c).

    So for that one write those who are there step aside into a group of ours.
    """
    try:
        write_file(f"{folder}/{name}", value or "\n")
    except OSError as error:
        if error.errno != errno.ENOSPC or value:
            raise
        aside = f"{groups.OURS}/{mark}.aside"
        if not os.path.isdir(aside):
            groups.make(aside)
        try:
            groups.empty(folder, aside)
            write_file(f"{folder}/{name}", "\n")
        finally:
            groups.empty(aside, folder)
            groups.remove(aside)


def show(mark: str, counters: str, by: str, what: str, *names: str) -> dict[str, Any]:
    """The files of the cgroup by name (None when one is not there), what they were at the act, and its OOM kills."""
    known = common.get_mark(mark) or {}
    folder = known.get("folder") or groups.in_place(by, what)
    now = targets.find(by, what)
    return {
        "folder": folder,
        "files": {**groups.files(folder, names), counters: _counters(folder, counters)},
        "at_act": known.get("counters"),
        "previous": known.get("previous"),
        "basis": known.get("basis"),
        "moved": [{**entry, "in": groups.of(entry["pid"])} for entry in known.get("moved", []) if groups.same(entry)],
        "targets": known.get("targets", []),
        "now": [process.as_dict() for process in now][:64],
        "oom": kernellog.kills_in(str(folder), known["log"]) if "log" in known and counters == _KILLS else [],
    }


def _counters(folder: str | None, name: str) -> str | None:
    """Of the group; pids.events of those below it are added, since the kernel counts where the fork was tried."""
    if folder is None or name != "pids.events":
        return common.read_text(f"{folder}/{name}") if folder else None
    count = 0
    for below, _, _ in os.walk(folder):
        count += sum(int(line.split()[1]) for line in (common.read_text(f"{below}/{name}") or "").splitlines())
    return f"max {count}\n"


def _basis(folder: str, name: str, value: str) -> Any:
    """What a value depends on, as the kernel says it now."""
    if share := _SHARE.match(value):
        if share[3] == "quota":
            return tightest_quota(folder)
        return {"cpus": (os.sysconf("SC_NPROCESSORS_ONLN") if share[3] == "cpus" else 1)}
    if value.startswith("+"):
        return {"used": int(common.read_text(f"{folder}/{_USED[name]}") or "0")}
    if value.startswith("first:"):
        return {"cpus": cpus(common.read_text(f"{folder}/cpuset.cpus.effective") or "")}
    return None


def _value(name: str, value: str, basis: Any) -> str:
    if share := _SHARE.match(value):
        whole = basis["quota"] / basis["period"] if basis and "quota" in basis else (basis or {}).get("cpus", 1)
        return f"{max(1000, round(float(share[1]) / 100 * whole * int(share[2])))} {share[2]}"
    if value.startswith("+"):
        return str(basis["used"] + int(value[1:]))
    if value.startswith("first:"):
        count = int(value[6:])
        if count >= len(basis["cpus"]):
            raise ValueError(f"it may use {len(basis['cpus'])} CPUs, so it cannot be left with {count} of them")
        return ",".join(map(str, basis["cpus"][:count]))
    return value


def tightest_quota(folder: str) -> dict[str, int] | None:
    """The smallest cpu.max of the group and those above it, None when no quota is set."""
    found: list[tuple[int, int]] = []
    while folder.startswith(f"{groups.ROOT}/"):
        quota, _, period = (common.read_text(f"{folder}/cpu.max") or "max 100000").strip().partition(" ")
        if quota.isdigit():
            found.append((int(quota), int(period)))
        folder = os.path.dirname(folder)
    if not found:
        return None
    quota_us, period_us = min(found, key=lambda pair: pair[0] / pair[1])
    return {"quota": quota_us, "period": period_us}


def cpus(text: str) -> list[int]:
    """`0-2,4` is [0, 1, 2, 4]."""
    found: list[int] = []
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit():
            found += range(int(first), int(last or first) + 1)
    return found


def main(argv: Sequence[str]) -> int:
    """`cgroup set|change|restore|show`."""
    verbs: dict[str, common.Verb] = {"set": set_limits, "change": change, "restore": restore, "show": show}
    return common.serve("cgroup", verbs, list(argv))
