"""A pile of zombies: children that have ended and that nobody waits for."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable
from typing import Any

from stormcell.guest.tools import common, groups, holders, targets

_CLONE_VM, _CLONE_VFORK, _SIGCHLD = 0x100, 0x4000, 17  # linux/sched.h
_LOOK_S = 0.25


def make(mark: str, count: str, by: str, what: str) -> dict[str, Any]:
    """So many, in the group of the target, where they count against its pids.max."""
    folder, target = holders.place(by, what, mark, groups.PASSIVE)

    def body(wanted: Callable[[], bool], ready: holders.Ready) -> None:
        _die(int(count))
        ready(None)
        while wanted():
            time.sleep(_LOOK_S)

    known = {"target": target, "targets": [process.as_dict() for process in targets.find(by, what)]}
    holders.start(mark, known, folder, [("sc-zombies", body)], None)
    return {"folder": folder, "made": int(count)}


def _die(count: int) -> None:
    """clone(2) with the child's function being _exit: no page is copied, and Python never runs in it."""
    libc = holders.libc()
    size = 16384
    stack = ctypes.create_string_buffer(size)
    top = ctypes.c_void_p((ctypes.addressof(stack) + size) & ~0xF)
    function = ctypes.cast(libc._exit, ctypes.c_void_p)
    for made in range(count):
        if libc.clone(function, top, _CLONE_VM | _CLONE_VFORK | _SIGCHLD, None) < 0:
            number = ctypes.get_errno()
            raise OSError(number, f"{os.strerror(number)} after {made} of {count} zombies")


def stop(mark: str) -> None:
    """End their parent; init waits for them then. May be said twice."""
    holders.stop(mark)
    common.drop_mark(mark)


def show(mark: str, by: str, what: str) -> dict[str, Any]:
    """How many zombies our parent has, by /proc, and how many tasks the group holds."""
    known = common.get_mark(mark) or {}
    group = known.get("holders_in")
    standing = holders.show(known)
    parents = {entry["pid"] for entry in standing}
    target = known.get("target") or groups.in_place(by, what)
    return {
        "holders_in": group,
        "holders": standing,
        "zombies": _zombies(parents) if parents else 0,
        "files": groups.files(target or group, ("pids.current", "pids.max", "pids.events")),
        "target": target,
        "targets": known.get("targets", []),
        "now": [process.as_dict() for process in targets.find(by, what)][:64],
    }


def _zombies(parents: set[int]) -> int:
    found = 0
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = (common.read_text(f"/proc/{name}/stat") or ")").rpartition(")")[2].split()[:2]
            found += len(fields) == 2 and fields[0] == "Z" and int(fields[1]) in parents
    return found


def main(argv: list[str]) -> int:
    """`zombies make|stop|show`."""
    return common.serve("zombies", {"make": make, "stop": stop, "show": show}, argv)
