"""Counts the system calls that came back with some error, by process, in the kernel."""

from __future__ import annotations

import errno
from collections.abc import Sequence

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import counters

EVENT = "raw_syscalls/sys_exit"
OURS = "sc-"
"""Our own tools name themselves so before they try what shall fail."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


def start(name: str, errors: Sequence[int] = NO_ROOM) -> None:
    """Begin to count. Raises OSError; ValueError when `name` counts already."""
    condition = " || ".join(f"ret == -{number}" for number in errors)
    counters.start(name, EVENT, "common_pid.execname", condition)


def counted(name: str) -> dict[str, int] | None:
    """Refused calls by `command[pid]`, ours apart. None when nothing counts."""
    entries = counters.read(name, EVENT)
    if entries is None:
        return None
    return {e["process"]: int(e["hitcount"]) for e in entries if not e.get("process", OURS).startswith(OURS)}


def stop(name: str) -> None:
    """End it; there need not be one."""
    counters.stop(name, (EVENT,))


def call_me(name: str) -> None:
    """Name this process so that its refusals are not counted as a victim's."""
    write_file("/proc/self/comm", OURS + name)
