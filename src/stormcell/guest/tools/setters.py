"""Who sets the wall clock: counted in the kernel by process, in an instance of its tracer; and the time daemons.

The histograms stand on the syscalls tracepoints (Documentation/trace/histogram.rst): a process that lives for a moment
only (`date -s`) is still named. They see calls, not intents: a daemon that only reads adjtimex(2) is counted too, so
setting and adjusting are told apart.
"""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterable
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, processes
from stormcell.guest.tools.processes import Process

INSTANCES = "/sys/kernel/tracing/instances"
SETS = {"sys_enter_clock_settime": " if which_clock == 0", "sys_enter_settimeofday": ""}
ADJUSTS = {"sys_enter_adjtimex": "", "sys_enter_clock_adjtime": ""}
OURS = "sc-clock"
DAEMONS = ("chronyd", "ntpd", "ntp", "openntpd", "systemd-timesyncd", "systemd-timesyn", "ptp4l", "phc2sys",
           "timemaster", "sntp", "rdate", "ntpdate", "htpdate", "tlsdate", "tlsdated")  # fmt: skip
_ENTRY = re.compile(r"\{ common_pid: (.*?)\s*\[\s*(\d+)\] \} hitcount:\s*(\d+)")


def call_me() -> None:
    """This process moves the clock on purpose and is not to be named."""
    write_file("/proc/self/comm", OURS)


def start(name: str) -> None:
    """Begin to count. Raises FileExistsError when the instance `name` is already there."""
    os.mkdir(_instance(name))
    for event, condition in (SETS | ADJUSTS).items():
        write_file(f"{_instance(name)}/events/syscalls/{event}/trigger", f"hist:keys=common_pid.execname{condition}\n")


def stop(name: str) -> None:
    """End it; there need not be one."""
    try:
        os.rmdir(_instance(name))  # takes the triggers with it
    except FileNotFoundError:
        pass


def counted(name: str, events: Iterable[str]) -> dict[str, int]:
    """Calls by `command[pid]`, ours apart."""
    found: dict[str, int] = {}
    for event in events:
        text = common.read_text(f"{_instance(name)}/events/syscalls/{event}/hist") or ""
        for comm, pid, hits in _ENTRY.findall(text):
            if not comm.startswith(OURS):
                found[f"{comm}[{pid}]"] = found.get(f"{comm}[{pid}]", 0) + int(hits)
    return found


def daemons() -> list[Process]:
    """Time daemons that run."""
    found = {process.pid: process for name in DAEMONS for process in processes.named(name)}
    return list(found.values())


def send(victims: list[dict[str, Any]], number: signal.Signals) -> None:
    """To those that are still the same processes."""
    for victim in victims:
        try:
            handle = os.pidfd_open(victim["pid"])
        except ProcessLookupError:
            continue
        try:
            now = processes.look(victim["pid"])
            if now is not None and now.start_time == victim["start_time"]:
                signal.pidfd_send_signal(handle, number)
        except ProcessLookupError:
            pass
        finally:
            os.close(handle)


def _instance(name: str) -> str:
    return f"{INSTANCES}/sc-clock-{name}"
