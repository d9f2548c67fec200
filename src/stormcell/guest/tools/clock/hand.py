"""A process in the background that keeps setting the wall clock, for faults that one call cannot make.

It sits in a cgroup of its own, by which it is ended, and ends by itself when its mark is gone.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, processes
from stormcell.guest.tools.clock import setters

FAULTS = "/sys/fs/cgroup/stormcell/faults"
APPEARS_S = 5.0
GONE_S = 5.0
TOLD_S = 0.1

Step = Callable[[int], int]
"""Nanoseconds since boot, to the offset that the wall clock then has to have."""


def start(mark: str, about: dict[str, Any], step_s: float, offset_at: Step) -> dict[str, Any]:
    """Returns when it is at work; what it is goes into the mark `mark`. Raises OSError."""
    read, write = os.pipe2(os.O_CLOEXEC)
    if os.fork() == 0:
        os.close(read)
        _leave(write, mark, step_s, offset_at)
    os.close(write)
    with open(read, encoding="utf-8") as said:
        told = json.loads(said.read() or '{"error": "it ended at once"}')
    os.wait()
    if "error" in told:
        raise ValueError(f"the clock's hand was not started: {told['error']}")
    known = {**about, **told}
    common.put_mark(mark, known)
    return known


def stop(mark: str) -> None:
    """Returns when it is gone; harmless when there is none."""
    common.drop_mark(mark)
    folder = f"{FAULTS}/{mark}"
    if not os.path.isdir(folder):
        return
    write_file(f"{folder}/cgroup.kill", "1")
    deadline = time.monotonic() + GONE_S
    while True:
        try:
            os.rmdir(folder)
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.002)


def shown(mark: str) -> dict[str, Any] | None:
    """What it is, how often it set the clock, and whether it is alive. None when there is none."""
    known = common.get_mark(mark)
    if known is None:
        return None
    now = processes.look(known["pid"])
    steps = common.get_mark(f"{mark}.steps") or {}
    return {**known, "alive": now is not None and now.start_time == known["start_time"], **steps}


def _leave(told: int, mark: str, step_s: float, offset_at: Step) -> None:
    """Become a process of nobody's, say who, and work until the mark is gone."""
    try:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in range(3):
            os.dup2(null, fd)
        os.makedirs(f"{FAULTS}/{mark}", exist_ok=True)
        write_file(f"{FAULTS}/{mark}/cgroup.procs", "0")
        write_file("/proc/self/oom_score_adj", "-900")
        setters.call_me()
        own = processes.look(os.getpid())
        os.write(told, json.dumps({"pid": os.getpid(), "start_time": own.start_time if own else 0}).encode())
        os.close(told)
        _work(mark, step_s, offset_at)
    except BaseException as error:
        try:
            os.write(told, json.dumps({"error": common.describe(error)}).encode())
        except OSError:
            pass
    finally:
        os._exit(0)


def _work(mark: str, step_s: float, offset_at: Step) -> None:
    path = common.mark_path(mark)
    deadline = time.monotonic() + APPEARS_S
    while not os.path.exists(path):
        if time.monotonic() > deadline:
            return
        time.sleep(0.002)
    steps, told_at, due = 0, 0.0, time.monotonic()
    while os.path.exists(path):
        boot = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        time.clock_settime_ns(time.CLOCK_REALTIME, boot + offset_at(boot))
        steps += 1
        if time.monotonic() - told_at >= min(TOLD_S, step_s):
            common.put_mark(f"{mark}.steps", {"steps": steps})
            told_at = time.monotonic()
        due = max(due + step_s, time.monotonic())
        time.sleep(due - time.monotonic() if due > time.monotonic() else 0)
    common.drop_mark(f"{mark}.steps")
