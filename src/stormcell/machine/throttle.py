"""A machine that gets only a share of the time: its process is stopped and let go on again, many times a second.

The guest's clocks go on while it is stopped, as on a host that gives the virtual processors to somebody else.
"""

from __future__ import annotations

import threading
import time
from typing import Any

from stormcell.machine.machine import Machine

LEAST_S = 0.0005
"""A shorter stop would not reach all threads of the process."""
LONGEST_S = 0.5
"""In one go, when the host was late and there is much to catch up with."""


class Throttle:
    """Runs in a thread of its own, so that a busy event loop does not stretch a stop. `end` lets the machine go."""

    def __init__(self, machine: Machine, share: float, period_s: float) -> None:
        self.share, self.period_s = share, period_s
        self._machine = machine
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._ended: float | None = None
        self._stopped_s = 0.0
        self._stops = 0
        self._seen = 0
        self._thread = threading.Thread(target=self._run, name="stormcell-throttle", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self) -> None:
        """Returns when the process was told to go on for good; harmless a second time."""
        self._over.set()
        self._thread.join()

    def report(self) -> dict[str, Any]:
        """What was measured. `seen` counts the stops in which the host's kernel showed the process as stopped."""
        with self._lock:
            seconds = (self._ended or time.monotonic()) - self._began
            return {
                "share": self.share,
                "period_s": self.period_s,
                "running": self._thread.is_alive(),
                "seconds": round(seconds, 6),
                "stopped_s": round(self._stopped_s, 6),
                "stops": self._stops,
                "seen": self._seen,
            }

    def _run(self) -> None:
        try:
            while not self._over.is_set():
                # what the host was late with is caught up with in the next period, so that the share comes out right
                due = (time.monotonic() - self._began + self.period_s) * (1 - self.share) - self._stopped_s
                if due >= LEAST_S:
                    self._stop(min(due, LONGEST_S))
                self._over.wait(self.period_s * self.share)
        finally:
            self._machine.thaw()
            with self._lock:
                self._ended = time.monotonic()

    def _stop(self, seconds: float) -> None:
        began = time.monotonic()
        self._machine.freeze()
        try:
            self._over.wait(seconds)
            seen = self._machine.frozen()
        finally:
            self._machine.thaw()
        with self._lock:
            self._stopped_s += time.monotonic() - began
            self._stops += 1
            self._seen += seen
