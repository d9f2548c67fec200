"""The guest's times on the host's clock.

An event is written in the guest at `t` and arrives at `h`; between lie the guest's start and the way, which is never
shorter than nothing. So the least `h - t` of an event and all after it is where the guest's clock stood then: exact to
the quickest delivery, also when the machine was frozen for a while (`h - t` then steps up and stays there).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Any

from stormcell.report.words import number

Event = Mapping[str, Any]


class Clock:
    """Of one run; a cold boot in the middle starts the guest's clock anew (`segment` counts them)."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._times: list[list[float]] = []
        self._offsets: list[list[float]] = []
        self._segment: dict[int, int] = {}
        self.end = 0.0
        for event in events:
            h, t = number(event.get("h")), number(event.get("t"))
            if h is not None:
                self.end = max(self.end, h)
            if event.get("on") == "host" or h is None or t is None:
                continue
            if event.get("n") == 0 or not self._times:
                self._times.append([])
                self._offsets.append([])
            self._segment[id(event)] = len(self._times) - 1
            self._times[-1].append(t)
            self._offsets[-1].append(h - t)
        for offsets in self._offsets:
            for place in range(len(offsets) - 2, -1, -1):
                offsets[place] = min(offsets[place], offsets[place + 1])

    def of(self, event: Event, moment: object = None) -> float | None:
        """When it was: `moment` is a time of the same clock as the event's. None when it says nothing usable."""
        segment = self._segment.get(id(event))
        if segment is None:
            h = number(event.get("h"))
            return None if h is None else self._within(h)
        t = number(event.get("t")) if moment is None else number(moment)
        return None if t is None else self._within(t + self._offset(segment, t))

    def _offset(self, segment: int, t: float) -> float:
        place = bisect_left(self._times[segment], t)
        return self._offsets[segment][min(place, len(self._offsets[segment]) - 1)]

    def _within(self, at: float) -> float:
        return min(max(at, 0.0), self.end)
