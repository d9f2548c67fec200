"""Has the threads of a target by ptrace: seizes them, gets their children from the kernel, waits for their stops."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterable
from typing import Any

from stormcell.guest.tools import background, common, targets
from stormcell.guest.tools.traced import ptrace

RESCAN_S = 0.2
READY_S = 5.0
BLOCKED = (signal.SIGCHLD,)
"""To be blocked before there is a second thread, which could take it."""
LATER_TOO = ("service", "cgroup", "user")
"""Targets that processes can join otherwise than as a child of one that is in it."""


class Seizer:
    """The loop; what is done with a stopped thread is for the class that inherits it. One thread, as ptrace wants.

    With `every_call` the threads stop at the beginning and the end of each system call, not only for signals.
    """

    def __init__(self, find: Callable[[], Iterable[int]], rescan: bool, every_call: bool = False) -> None:
        self._find = find
        self._rescan = rescan
        self._every_call = every_call
        self.traced: set[int] = set()
        self.ready = False
        self.refused: set[int] = set()
        """Threads that are there and that another tracer has."""

    def next_time(self) -> float | None:
        """When `due` has something to do; None when nothing waits."""
        return None

    def due(self) -> None:
        """What the time has come for."""

    def stopped(self, tid: int, number: int) -> None:
        """A thread waits with a signal (with SYSCALL_STOP: at a system call)."""
        raise NotImplementedError

    def gone(self, tid: int) -> None:
        """A thread has ended."""

    def run(self) -> None:
        """For ever."""
        self._scan()
        self.ready = True
        look = time.monotonic() + RESCAN_S
        while True:
            now = time.monotonic()
            if self._rescan and now >= look:
                self._scan()
                look = now + RESCAN_S
            until = look if self._rescan else now + 60
            if (own := self.next_time()) is not None:
                until = min(until, own)
            signal.sigtimedwait(BLOCKED, max(0.0, until - now))
            self._reap()
            self.due()

    def _scan(self) -> None:
        refused: set[int] = set()
        for pid in self._find():
            fresh = True
            while fresh:  # a thread can make another one before it is seized
                found = set(_threads(pid)) - self.traced
                seized = {tid for tid in found if ptrace.seize(tid, self._every_call)}
                self.traced |= seized
                fresh = bool(seized)
            rest = set(_threads(pid)) - self.traced  # new ones of a traced thread are ours without having been seized
            refused |= {tid for tid in rest if status(tid, "TracerPid") not in (None, 0, os.getpid())}
        self.refused = refused

    def _reap(self) -> None:
        while True:
            try:
                tid, status = os.waitpid(-1, os.WNOHANG | ptrace.ALL_THREADS)
            except ChildProcessError:
                return
            if not tid:
                return
            if not os.WIFSTOPPED(status):
                self.traced.discard(tid)
                self.gone(tid)
                continue
            self.traced.add(tid)
            if number := ptrace.settle(tid, status, self._every_call):
                self.stopped(tid, number)


def finder(by: str, what: str, found: Iterable[int]) -> Callable[[], Iterable[int]]:
    """What a target means now: `found` for those that are found once."""

    def find() -> Iterable[int]:
        if by not in LATER_TOO:
            return list(found)
        try:
            return [process.pid for process in targets.find(by, what)]
        except (OSError, LookupError, ValueError):
            return []

    return find


def only_here() -> None:
    """System calls are told by their numbers. Raises ValueError where these are others."""
    if os.uname().machine != "x86_64":
        raise ValueError(f"the numbers of the system calls of {os.uname().machine} are not known here, only of x86_64")


def start(mark: str, holder: Seizer, answer: background.Answer) -> dict[str, Any]:
    """Run it in the background, and wait until it has every thread that was there. Raises ValueError."""
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    background.start(mark, holder.run, answer)
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        told = background.ask(mark, {})
        if told is None:
            raise ValueError("the tracer ended at once")
        if told["refused"]:
            raise ValueError(
                f"thread {told['refused'][0]} has another tracer: a debugger, or another fault of this kind"
            )
        if told["ready"]:
            return dict(told)
        time.sleep(0.002)
    raise ValueError(f"the tracer does not have every thread of the target after {READY_S:g} s")


def status(tid: int, field: str) -> int | None:
    """A number in /proc/TID/status; None when the thread is gone."""
    try:
        text = common.read_text(f"/proc/{tid}/status") or ""
    except OSError:
        return None
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(f"{field}:")), None)


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
