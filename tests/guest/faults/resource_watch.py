"""Observers that do not use the product: what the kernel says of a group or a process, taken by plain commands."""

from __future__ import annotations

from collections.abc import Callable

from tests.guest.faults.fault_trial import Trial
from tests.guest.faults.resource_loads import GROUP

CENTISECONDS = "$(cut -d' ' -f1 /proc/uptime | tr -d .)"
OF_GROUP = f"$(sed -n 's/^usage_usec //p' {GROUP}/cpu.stat)"
"""Microseconds of CPU time."""


def of_process(name: str) -> str:
    """Microseconds of CPU time of the one process with that command name."""
    return f"$(($(cut -d' ' -f1 /proc/$(pgrep -xo {name})/schedstat) / 1000))"


def share_between(low: int, high: int, used: str = OF_GROUP, seconds: float = 1.5, tries: int = 16) -> str:
    """Shell text that prints which percentage of the time was used, again and again, the last one being in between.

    When the host takes the CPU away for a moment, the guest charges it to whoever runs, and a limit lets that one make
    good for it: one look says nothing then. A share that is another one is in between at no look.
    """
    look = f"a={used}; s={CENTISECONDS}; sleep {seconds}; b={used}; t={CENTISECONDS}"
    share = "p=$(((b - a) / (t - s) / 100))"
    found = f"[ $p -ge {low} ] && [ $p -le {high} ] && break"
    return f"n=0; while [ $n -lt {tries} ]; do n=$((n + 1)); {look}; {share}; echo $p; {found}; done"


def percent(said: str) -> int:
    """The last one that `share_between` printed."""
    return int(said.split()[-1])


def grows(number: str, by: int) -> str:
    """Shell text that prints by how much a number (shell text) has grown, as soon as that is more than `by`."""
    return f"a={number}; until b={number}; [ $((b - a)) -gt {by} ]; do sleep 0.1; done; echo $((b - a))"


def goes_on(name: str) -> str:
    """Shell text that prints by how many context switches the process went on, as soon as it is some."""
    return grows(f"$(grep -h ^voluntary_ctxt /proc/$(pgrep -x {name})/status | tr -dc 0-9)", 5)


def in_time(attempt: Callable[[], Trial], times: int = 3) -> Trial:
    """A trial of a fault that is a matter of moments. The host may miss one; the receipt says so then, and it is tried
    again."""
    for _ in range(times - 1):
        trial = attempt()
        if trial.receipt.in_force and trial.receipt.acted and trial.receipt.clean:
            return trial
    return attempt()
