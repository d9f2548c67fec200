"""Where in a recorded run to stop: a time of it, or one of its events. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stormcell.engine.sealed.conduct import Until
from stormcell.spec.errors import SpecError
from stormcell.spec.units import duration

_EVENT = re.compile(r"event:([0-9]{1,9})\Z")
RULE = "a place in a run is a time of it, such as 12.5s, or an event by its line in events.jsonl, from 0: event:31"


@dataclass(frozen=True)
class Place:
    """One of the two is set: seconds of the run, or the number of an event."""

    seconds: float | None = None
    event: int | None = None

    @property
    def text(self) -> str:
        """As it is written."""
        return f"{self.seconds:g}s" if self.seconds is not None else f"event:{self.event}"


def parse_place(text: str) -> Place:
    """`12.5s` or `event:31`. Raises SpecError."""
    if found := _EVENT.match(text):
        return Place(event=int(found[1]))
    try:
        seconds = duration(text)
    except ValueError as error:
        raise SpecError(f"'{text}' is no place in a run: {error}", rule=RULE) from error
    if seconds < 0:
        raise SpecError(f"'{text}' is before the run", rule=RULE)
    return Place(seconds=seconds)


def until(place: Place, events: Sequence[Mapping[str, Any]], where: str) -> Until:
    """What stops a replay of the run with these events there. Raises SpecError for a place that it does not have."""
    of_guest = [number for number, event in enumerate(events) if event.get("on") == "guest"]
    if not of_guest:
        raise SpecError("the run ended before anything happened in its guest", where=where)
    last = of_guest[-1]
    end = events[last]
    if place.seconds is not None:
        if place.seconds > end["h"]:
            raise SpecError(
                f"the run's last event in its guest is event:{last}, at {end['h']:.3f} s, before {place.seconds:g} s",
                where=where,
                rule=f"{RULE}; the guest time in the run's summary has the start and the end of the runner in it, too",
                remedy=f"stop at event:{last} or before it",
            )
        return Until(seconds=place.seconds)
    assert place.event is not None
    if place.event >= len(events):
        what = f"the run has no event {place.event}: its events are 0 to {len(events) - 1}"
        raise SpecError(what, where=where, rule=RULE, remedy=f"stop at event:{last}, the last in its guest")
    if place.event not in of_guest:
        raise SpecError(
            f"event {place.event} ({called(events[place.event])}) was the host's",
            where=where,
            rule="a machine stops at what happens in it",
            remedy=f"stop at event:{min(of_guest, key=lambda number: abs(number - int(place.event or 0)))}",
        )
    return Until(event=of_guest.index(place.event))


def called(event: Mapping[str, Any]) -> str:
    """An event in a few words: what it is, in which step, of which fault or load or probe."""
    parts = [str(event.get("event"))]
    parts += [str(event[key]) for key in ("label", "fault", "probe", "load", "state") if event.get(key)]
    return " ".join(parts)


def events_in(log: bytes) -> list[dict[str, Any]]:
    """Of an event log. Raises ValueError."""
    return [json.loads(line) for line in log.splitlines()]
