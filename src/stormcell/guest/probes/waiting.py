"""How the thread that measures sleeps: until a descriptor is readable, or for a time."""

from __future__ import annotations

import os
import select
from collections.abc import Callable

Wait = Callable[[int, float], bool]
"""`wait(fd, seconds)`: True when `fd` is readable, False when the time is over."""


class Broken(Exception):
    """Somebody asked the measurement to end."""


def plain_wait(fd: int, seconds: float) -> bool:
    """With nothing else to watch."""
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(max(0.0, seconds) * 1000))


class BreakableWait:
    """A `Wait` for a worker thread; another thread may `break_off` the measurement, which then raises Broken."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def __call__(self, fd: int, seconds: float) -> bool:
        """The wait."""
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        poll.register(self._read, select.POLLIN)
        ready = [number for number, _ in poll.poll(max(0.0, seconds) * 1000)]
        if self._read in ready:
            raise Broken("the measurement was broken off")
        return fd in ready

    def break_off(self) -> None:
        """From any thread."""
        os.write(self._write, b"\0")

    def close(self) -> None:
        """When the measuring thread is over."""
        os.close(self._read)
        os.close(self._write)
