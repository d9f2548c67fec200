"""A hostile host for processes of ours: it stops them, moves them between cores, and prefers one thread to another."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUSY = (sys.executable, "-c", "while True: pass")
PROGRAM = "qemu-system"
BETWEEN_S = 0.05
LONGEST_STOP_S = 0.3


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many loops of ours that want a core each."""
    loops = [subprocess.Popen(BUSY) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@contextmanager
def hostile() -> Iterator[None]:
    """While it lasts, every QEMU below this process and who made it are disturbed at random: nothing else is."""
    over = threading.Event()
    thread = threading.Thread(target=_disturb, args=(over,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _disturb(over: threading.Event) -> None:
    drawn = random.Random()
    cores = sorted(os.sched_getaffinity(0))
    while not over.wait(drawn.uniform(0, 2 * BETWEEN_S)):
        for pid in _machines():
            with contextlib.suppress(OSError):
                _once(pid, drawn, cores, over)


def _once(pid: int, drawn: random.Random, cores: list[int], over: threading.Event) -> None:
    threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    for thread in threads:
        os.setpriority(os.PRIO_PROCESS, thread, drawn.choice((0, 0, 10, 19)))
    chosen = cores if drawn.random() < 0.5 else [drawn.choice(cores)]
    for thread in threads:
        os.sched_setaffinity(thread, chosen)
    if drawn.random() < 0.2:
        _stopped(pid, drawn.uniform(0, LONGEST_STOP_S), over)


def _stopped(pid: int, seconds: float, over: threading.Event) -> None:
    fd = os.pidfd_open(pid)
    try:
        if pid in _machines():  # it is the one that the descriptor names
            signal.pidfd_send_signal(fd, signal.SIGSTOP)
            over.wait(seconds)
            signal.pidfd_send_signal(fd, signal.SIGCONT)
    finally:
        os.close(fd)


def _machines() -> list[int]:
    """Every QEMU below this process, and who made it."""
    found, todo = [], [(os.getpid(), 0)]
    while todo:
        pid, parent = todo.pop()
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                todo += [(int(word), pid) for word in (task / "children").read_text().split()]
            if Path(f"/proc/{pid}/comm").read_text().startswith(PROGRAM):
                found += [pid, *({parent} - {os.getpid()})]
    return found
