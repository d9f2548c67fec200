"""Burn CPU time: a stated share of it as ordinary processes (load), or ahead of all ordinary ones (steal)."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from stormcell.guest.tools import cgroup, common, groups, holders, processes, targets

_SLICE_S = 0.02
_LOOK_S = 0.25
PRIORITY = 1


def load(mark: str, by: str, what: str, workers: str, percent: str, of: str) -> dict[str, Any]:
    """Take `percent` of the target's quota (of one CPU without one) with so many processes, charged to the target."""
    folder, target = holders.place(by, what, mark, groups.OURS)
    quota = cgroup.tightest_quota(target) if target is not None and of == "quota" else None
    whole = quota["quota"] / quota["period"] if quota else 1.0
    count = int(workers)
    share = float(percent) / 100 * whole / count
    if share > 1:
        raise ValueError(f"{count} processes cannot use {share * count:.4g} CPUs")
    known = {**_known(by, what, target), "basis": quota, "asked": [workers, percent, of]}
    body = _burner(share, _SLICE_S)
    holders.start(mark, known, folder, [(f"sc-burn {share * 100:.5g}%", body)] * count, None)
    return {"share": share, "workers": count, "folder": folder}


def steal(mark: str, by: str, what: str, percent: str, period: str) -> dict[str, Any]:
    """Take `percent` of every CPU in the real-time class, so that everybody else waits meanwhile."""
    share = float(percent) / 100
    target = groups.in_place(by, what)
    if by != "none" and not targets.find(by, what):
        raise LookupError(f"there is no process of {by} '{what}' to take CPU time from")
    online = sorted(os.sched_getaffinity(0))
    bodies = [(f"sc-steal {share * 100:.4g}%", _thief(cpu, share, float(period))) for cpu in online]
    known = {**_known(by, what, target), "asked": [percent, period]}
    holders.start(mark, known, f"{groups.OURS}/{mark}", bodies, None)
    return {"share": share, "cpus": online}


def stop(mark: str) -> None:
    """End the burners. May be said twice."""
    holders.stop(mark)
    common.drop_mark(mark)


def show(mark: str, by: str, what: str) -> dict[str, Any]:
    """The burners, what they used, and how long the target waited for a CPU."""
    known = common.get_mark(mark) or {}
    group = known.get("holders_in")
    target = known.get("target") or groups.in_place(by, what)
    found = targets.find(by, what)
    return {
        "at": time.monotonic(),
        "asked": known.get("asked"),
        "begun": known.get("begun"),
        "basis": known.get("basis"),
        "holders_in": group,
        "holders": holders.show(known),
        "used_usec": _used(group) if group else None,
        "cpus": len(os.sched_getaffinity(0)),
        "waited_usec": _waited(by, target, found),
        "waited_at_act": known.get("waited_usec"),
        "target": target,
        "target_files": groups.files(target, ("cpu.stat", "cpu.pressure", "cpu.max")),
        "targets": known.get("targets", []),
        "now": [process.as_dict() for process in found][:64],
    }


def _known(by: str, what: str, target: str | None) -> dict[str, Any]:
    found = targets.find(by, what)
    return {
        "begun": time.monotonic(),
        "target": target,
        "targets": [process.as_dict() for process in found],
        "waited_usec": _waited(by, target, found),
    }


def _used(group: str) -> int | None:
    for line in (common.read_text(f"{group}/cpu.stat") or "").splitlines():
        if line.startswith("usage_usec"):
            return int(line.split()[1])
    return None


def _waited(by: str, target: str | None, found: list[processes.Process]) -> int:
    """Microseconds that tasks were runnable and did not run: by PSI of the group or the guest, or by the scheduler."""
    if target is not None or by == "none":
        text = common.read_text(f"{target}/cpu.pressure" if target else "/proc/pressure/cpu") or ""
        return int(text.partition("total=")[2].split()[0]) if "total=" in text else 0
    total = 0
    for process in found:
        try:
            for task in os.listdir(f"/proc/{process.pid}/task"):
                fields = (common.read_text(f"/proc/{process.pid}/task/{task}/schedstat") or "").split()
                total += int(fields[1]) // 1000 if len(fields) > 1 else 0
        except OSError:  # it ended meanwhile
            continue
    return total


def _thief(cpu: int, share: float, period: float) -> holders.Body:
    burn = _burner(share, period)

    def body(wanted: Callable[[], bool], ready: holders.Ready) -> None:
        os.sched_setaffinity(0, {cpu})
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
        burn(wanted, ready)

    return body


def _burner(share: float, period: float) -> holders.Body:
    """Uses `share` of the time by its own CPU clock. It catches up one period at most: a burst is another fault."""

    def body(wanted: Callable[[], bool], ready: holders.Ready) -> None:
        ready(None)
        began, used = time.monotonic(), time.process_time()
        looked = began
        while True:
            now = time.monotonic()
            if now - looked > _LOOK_S:
                looked = now
                if not wanted():
                    return
            owed = share * (now - began) - (time.process_time() - used)
            if owed > period:
                began, used, owed = now, time.process_time() + period, period
            if owed <= 0:
                time.sleep(max(period * (1 - share), -owed / share))
                continue
            until = time.process_time() + owed
            while time.process_time() < until:
                for _ in range(300):
                    pass

    return body


def main(argv: list[str]) -> int:
    """`burn load|steal|stop|show`."""
    verbs: dict[str, common.Verb] = {"load": load, "steal": steal, "stop": stop, "show": show}
    return common.serve("burn", verbs, argv)
