"""QMP events as they arrive, kept in bounds, and waited for without polling."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

Event = dict[str, Any]
KEPT = 1000
"""A guest can cause events without end (link changes, resets); the oldest are forgotten."""


class EventLog:
    """What the monitor said by itself."""

    def __init__(self) -> None:
        self._seen: deque[Event] = deque(maxlen=KEPT)
        self._waiting: list[tuple[Callable[[Event], bool], asyncio.Future[Event]]] = []

    def add(self, event: Event) -> None:
        """Keep an event and wake those who wait for one like it."""
        self._seen.append(event)
        for wanted, future in self._waiting:
            if not future.done() and wanted(event):
                future.set_result(event)

    def all(self) -> list[Event]:
        """Oldest first, at most `KEPT`."""
        return list(self._seen)

    def expect(self, wanted: Callable[[Event], bool]) -> asyncio.Future[Event]:
        """The next event that `wanted` accepts. Ask before the act that causes it."""
        future: asyncio.Future[Event] = asyncio.get_running_loop().create_future()
        entry = (wanted, future)
        self._waiting.append(entry)
        future.add_done_callback(lambda _: self._waiting.remove(entry))
        return future


def end_reason(event: Event) -> str | None:
    """Why the guest is at its end, if this event says so: `guest-panic`, `guest-reset`, `guest-shutdown`, ..."""
    name, data = event.get("event"), event.get("data") or {}
    if name == "SHUTDOWN":
        return str(data.get("reason", "shutdown"))
    if name == "GUEST_PANICKED":
        return "guest-panic"
    return None


ENDED = {"shutdown": "guest-shutdown", "guest-panicked": "guest-panic", "internal-error": "internal-error"}
"""Run states from which a guest never comes back, with the reason to report when nobody saw the event."""
