"""Two event logs that should be equal: whether they are, and where they part. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Difference:
    """The first event that differs, counted from 0: as it was, and as it is now; None where a log was at its end.

    `event` is None when the log of the recorded run was not there, only its digest.
    """

    event: int | None
    was: dict[str, Any] | None
    now: dict[str, Any] | None

    @property
    def text(self) -> str:
        """In a sentence."""
        if self.event is None:
            return "the events have another digest; the recorded run came without its log, which would tell where"
        if self.was is None or self.now is None:
            missing, there = ("recorded", self.now) if self.was is None else ("new", self.was)
            return f"event {self.event} ({_called(there or {})}) is not in the {missing} run"
        keys = sorted(key for key in {*self.was, *self.now} if self.was.get(key) != self.now.get(key))
        shown = "; ".join(f"{key}: {_short(self.was.get(key))} was, {_short(self.now.get(key))} is" for key in keys[:3])
        return f"event {self.event} ({_called(self.was)}) differs in {', '.join(keys)}: {shown}"


def first_difference(was: bytes, now: bytes) -> Difference | None:
    """None when they are equal, byte for byte."""
    if was == now:
        return None
    before, after = was.splitlines(), now.splitlines()
    for number in range(max(len(before), len(after))):
        one = before[number] if number < len(before) else None
        other = after[number] if number < len(after) else None
        if one != other:
            return Difference(number, _event(one), _event(other))
    return Difference(len(before), None, None)  # an end of line only


def against_digest(was: str, now: bytes) -> Difference | None:
    """The same for a recorded log of which there is only the sha256 (hex)."""
    return None if hashlib.sha256(now).hexdigest() == was else Difference(None, None, None)


def cut_off(was: bytes, now: bytes) -> int | None:
    """How many events of a recorded run there are that never came to its end, when `now` begins with all of them.

    None when it came to its end (the last event is that its machine was released, and none is that it was lost), and
    when it differs before. What the host wrote of the loss is none of those events.
    """
    lines = was.splitlines(keepends=True)
    events = [_event(line) or {} for line in lines]
    lost = next((n for n, one in enumerate(events) if (one.get("on"), one.get("event")) == ("host", "lost")), None)
    if lost is None and events and events[-1].get("event") in ("released", "release_failed"):
        return None
    there = b"".join(lines[:lost])
    return there.count(b"\n") if now.startswith(there) else None


def _event(line: bytes | None) -> dict[str, Any] | None:
    if line is None:
        return None
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"event": "malformed", "text": line[:200].decode(errors="replace")}


def _called(event: dict[str, Any]) -> str:
    return " ".join(str(event[key]) for key in ("event", "step", "label") if event.get(key))


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:60]}…{text[-16:]}"
