"""Observers that do not use the product: what the kernel says of a group or a process, taken by plain commands."""

from __future__ import annotations

import re

from tests.guest.faults.fault_trial import Trial

UPTIME = "cut -d' ' -f1 /proc/uptime"


def cpu_of(pattern: str) -> str:
    """CPU ticks (100 a second) of the one process with that command name."""
    return f"P=$(pgrep -x {pattern} | head -1); echo ticks $(cut -d')' -f2 /proc/$P/stat | cut -d' ' -f13,14)"


def shares(trial: Trial, place: int = 0) -> list[float]:
    """From `ticks U S` lines between two `uptime` lines each side: the CPU shares of each process in order."""
    lines = trial.said[place].split("\n")
    ticks = [sum(map(int, line.split()[1:])) for line in lines if line.startswith("ticks")]
    times = [float(line) for line in lines if re.fullmatch(r"\d+\.\d+", line)]
    half = len(ticks) // 2
    return [(ticks[half + n] - ticks[n]) / 100 / (times[-1] - times[0]) for n in range(half)]


def watch(seconds: float, *names: str) -> str:
    """Shell text whose output `shares` reads."""
    each = "; ".join(cpu_of(name) for name in names)
    return f"{UPTIME}; {each}; sleep {seconds}; {UPTIME}; {each}"


def goes_on(name: str) -> str:
    """Shell text that prints by how many context switches the process went on within half a second."""
    count = f"$(grep -h ^voluntary_ctxt /proc/$(pgrep -x {name})/status | tr -dc 0-9)"
    return f"a={count}; sleep 0.5; echo $(({count} - a))"
