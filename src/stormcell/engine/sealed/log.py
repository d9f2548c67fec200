"""The events of a sealed run: the same bytes every time, the times in them being the guest's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stormcell.engine.conductor import OnEvent
from stormcell.engine.folder import RunFolder


class SealedLog:
    """Writes events to a run's folder. `h`, the host's time on a live run, is the guest's time since its begin."""

    def __init__(self, folder: RunFolder, on_event: OnEvent) -> None:
        self.events: list[dict[str, Any]] = []
        self._folder = folder
        self._on_event = on_event
        self._before = 0.0
        self._last = 0.0

    @property
    def last(self) -> float:
        """When the guest's last event was, in the run's time (s)."""
        return self._last

    def guest(self, event: Mapping[str, Any]) -> None:
        """One of the runner's."""
        if isinstance(moment := event.get("t"), int | float) and not isinstance(moment, bool):
            self._last = self._before + moment
        self._add({"on": "guest", **event})

    def host(self, event: str, **fields: Any) -> None:
        """One of the host's; nothing in it may be of this host."""
        self._add({"event": event, "on": "host", **fields})

    def beat(self, seconds: float) -> None:
        """So much of the guest's time has passed: told to whoever watches, and no part of the log."""
        self._on_event({"event": "beat", "on": "host", "seconds": seconds})

    def passed(self, seconds: float) -> None:
        """So long no runner was there to tell of it; the next one counts from there."""
        self._before = self._last = self._last + seconds

    def _add(self, event: Mapping[str, Any]) -> None:
        line = self._folder.event(event, at=self._last)
        self.events.append(line)
        self._on_event(line)
