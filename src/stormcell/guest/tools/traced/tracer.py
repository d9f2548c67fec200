"""Holds threads at the end of the system calls that the program in the kernel chose (guest/bpf/delay.bpf.c).

The program sends SIGURG; the kernel tells the tracer before the thread, and the thread waits for the tracer. After the
time of the delay it goes on without the signal. When the tracer ends, however it ends, the kernel lets every thread go;
what is left then is at worst one SIGURG, which does nothing by default.
"""

from __future__ import annotations

import heapq
import random
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stormcell.guest.tools.traced import ptrace
from stormcell.guest.tools.traced.seizer import Seizer


class Tracer(Seizer):
    """`find` says which processes are meant now, again and again with `rescan`."""

    def __init__(self, find: Callable[[], Iterable[int]], delay: float, jitter: float, rescan: bool) -> None:
        super().__init__(find, rescan)
        self.delay = delay
        self.jitter = jitter
        self._held: list[tuple[float, int]] = []
        self._done = 0
        self._waited = 0.0

    def next_time(self) -> float | None:
        """When the first of the held is let go."""
        return self._held[0][0] if self._held else None

    def stopped(self, tid: int, number: int) -> None:
        """A signal: ours is the beginning of a wait, any other goes through."""
        if number == signal.SIGURG and ptrace.is_from_kernel(tid):
            wait = max(0.0, self.delay + random.uniform(-self.jitter, self.jitter))
            heapq.heappush(self._held, (time.monotonic() + wait, tid))
            self._waited += wait
        elif number:
            ptrace.proceed(tid, number)

    def due(self) -> None:
        """Let go whose time is over."""
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
            "ready": self.ready,
            "refused": sorted(self.refused),
            "delay": self.delay,
            "jitter": self.jitter,
            "held": self._done,
            "holding": len(self._held),
            "waited": round(self._waited, 6),
            "threads": len(self.traced),
        }
