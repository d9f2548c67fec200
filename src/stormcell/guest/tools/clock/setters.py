"""Who sets the wall clock: counted in the kernel by process, by its tracer; and the time daemons.

The histograms stand on the syscalls tracepoints (Documentation/trace/histogram.rst): a process that lives for a moment
only (`date -s`) is still named. They see calls, not intents: a daemon that only reads adjtimex(2) is counted too, so
setting and adjusting are told apart. They stand in the tracer's main instance: making another one takes 200 ms.
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

EVENTS = "/sys/kernel/tracing/events/syscalls"
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
    """Begin to count. Raises FileExistsError when a count of this name is under way."""
    for event, condition in (SETS | ADJUSTS).items():
        write_file(_trigger(event), f"{_histogram(name, event)}{condition}\n")


def stop(name: str) -> None:
    """End it; there need not be one."""
    for event, condition in (SETS | ADJUSTS).items():
        if f"name={_name(name, event)}:" in (common.read_text(_trigger(event)) or ""):
            write_file(_trigger(event), f"!{_histogram(name, event)}{condition}\n")


def counted(name: str, events: Iterable[str]) -> dict[str, int]:
    """Calls by `command[pid]`, ours apart."""
    found: dict[str, int] = {}
    for event in events:
        for comm, pid, hits in _ENTRY.findall(_section(name, event)):
            if not comm.startswith(OURS):
                found[f"{comm}[{pid}]"] = found.get(f"{comm}[{pid}]", 0) + int(hits)
    return found


def _section(name: str, event: str) -> str:
    """Our histogram among those that stand on the event; empty when it does not."""
    text = common.read_text(f"{EVENTS}/{event}/hist") or ""
    mine = f"# trigger info: hist:name={_name(name, event)}:"
    return next((part for part in text.split("# event histogram") if mine in part), "")


def _histogram(name: str, event: str) -> str:
    return f"hist:keys=common_pid.execname:name={_name(name, event)}"


def _name(name: str, event: str) -> str:
    """Histograms of one name share their counts, so each event has its own."""
    return re.sub(r"\W", "_", f"sc_{name}_{event}", flags=re.ASCII)


def _trigger(event: str) -> str:
    return f"{EVENTS}/{event}/trigger"


def daemons() -> list[Process]:
    """Time daemons that run, by their command names."""
    return processes.of_comms(DAEMONS)


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
