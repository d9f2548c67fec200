"""Counts the system calls that were answered "no room", by process, in an instance of the kernel's tracer.

A histogram on the raw_syscalls:sys_exit tracepoint (Documentation/trace/histogram.rst) counts in the kernel: nothing
is recorded per call, and a process that dies is still counted.
"""

from __future__ import annotations

import errno
import os
import re

from stormcell.guest.kernel import write_file

TRACING = "/sys/kernel/tracing"
EVENT = "events/raw_syscalls/sys_exit"
OURS = "sc-"
"""Our own tools name themselves so before they try what shall fail."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_ENTRY = re.compile(r"\{ common_pid: (.*?)\s*\[\s*(\d+)\] \} hitcount:\s*(\d+)")


def start(name: str) -> None:
    """Begin to count. Raises OSError, FileExistsError when the instance `name` is already there."""
    os.mkdir(_instance(name))
    condition = " || ".join(f"ret == -{number}" for number in NO_ROOM)
    write_file(f"{_instance(name)}/{EVENT}/trigger", f"hist:keys=common_pid.execname if {condition}\n")


def counted(name: str) -> dict[str, int] | None:
    """Refused calls by `command[pid]`, ours apart. None when nothing counts."""
    try:
        with open(f"{_instance(name)}/{EVENT}/hist", encoding="utf-8", errors="replace") as file:
            entries = _ENTRY.findall(file.read())
    except FileNotFoundError:
        return None
    return {f"{comm}[{pid}]": int(hits) for comm, pid, hits in entries if not comm.startswith(OURS)}


def stop(name: str) -> None:
    """End it; there need not be one."""
    try:
        os.rmdir(_instance(name))  # takes the trigger with it
    except FileNotFoundError:
        pass


def call_me(name: str) -> None:
    """Name this process so that its refusals are not counted as a victim's."""
    write_file("/proc/self/comm", OURS + name)


def _instance(name: str) -> str:
    return f"{TRACING}/instances/{name}"
