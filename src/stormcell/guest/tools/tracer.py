"""Holds threads at the end of the system calls that the program in the kernel chose (guest/bpf/delay.bpf.c).

The program sends SIGURG; the kernel tells the tracer before the thread, and the thread waits for the tracer. After the
time of the delay it goes on without the signal. When the tracer ends, however it ends, the kernel lets every thread go;
what is left then is at worst one SIGURG, which does nothing by default.
"""

from __future__ import annotations

import heapq
import os
import random
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stormcell.guest.tools import ptrace

RESCAN_S = 0.2
BLOCKED = (signal.SIGCHLD,)


class Tracer:
    """`find` says which processes are meant now; new children of a traced one are traced by the kernel's doing."""

    def __init__(self, find: Callable[[], Iterable[int]], delay: float, jitter: float, rescan: bool) -> None:
        self._find = find
        self.delay = delay
        self.jitter = jitter
        self._rescan = rescan
        self._held: list[tuple[float, int]] = []
        self._traced: set[int] = set()
        self._ready = False
        self._done = 0
        self._waited = 0.0

    def run(self) -> None:
        """For ever."""
        self._scan()
        self._ready = True
        look = time.monotonic() + RESCAN_S
        while True:
            now = time.monotonic()
            if self._rescan and now >= look:
                self._scan()
                look = now + RESCAN_S
            until = min([look if self._rescan else now + 60, *(at for at, _ in self._held[:1])])
            signal.sigtimedwait(BLOCKED, max(0.0, until - now))
            self._reap()
            self._release()

    def _scan(self) -> None:
        for pid in self._find():
            fresh = True
            while fresh:  # a thread can make another one before it is seized
                found = set(_threads(pid)) - self._traced
                seized = {tid for tid in found if ptrace.seize(tid)}
                self._traced |= seized
                fresh = bool(seized)

    def _reap(self) -> None:
        while True:
            try:
                tid, status = os.waitpid(-1, os.WNOHANG | ptrace.ALL_THREADS)
            except ChildProcessError:
                return
            if not tid:
                return
            if not os.WIFSTOPPED(status):
                self._traced.discard(tid)
                continue
            self._traced.add(tid)
            number = ptrace.settle(tid, status)
            if number == signal.SIGURG and ptrace.is_from_kernel(tid):
                wait = max(0.0, self.delay + random.uniform(-self.jitter, self.jitter))
                heapq.heappush(self._held, (time.monotonic() + wait, tid))
                self._waited += wait
            elif number:
                ptrace.proceed(tid, number)

    def _release(self) -> None:
        now = time.monotonic()
        while self._held and self._held[0][0] <= now:
            _, tid = heapq.heappop(self._held)
            ptrace.proceed(tid)
            self._done += 1

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """For `background`: other amounts, or what it did."""
        if "change" in request:
            self.delay, self.jitter = float(request["change"][0]), float(request["change"][1])
        return {
            "ready": self._ready,
            "delay": self.delay,
            "jitter": self.jitter,
            "held": self._done,
            "holding": len(self._held),
            "waited": round(self._waited, 6),
            "threads": len(self._traced),
        }


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
