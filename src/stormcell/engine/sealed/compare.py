"""Two event logs that should be equal: whether they are, and where they part. Pure."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

LOST = ("host", "lost")
"""What an event of the host's says when a run did not come to its end: that is the host's word, and not the run's."""


@dataclass(frozen=True)
class Difference:
    """The first event that differs, counted from 0: as it was, and as it is now; None where a log was at its end.

    `event` is None when there was only the digest of the recorded run's log to compare with.
    """

    event: int | None
    was: dict[str, Any] | None
    now: dict[str, Any] | None

    @property
    def text(self) -> str:
        """In a sentence."""
        if self.event is None:
            return "the events have another digest; the recorded log, which would tell where, is not there or damaged"
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


@dataclass(frozen=True)
class Comparison:
    """Of a recorded run with a new one. Both are the same when nothing is set but `damaged`.

    `cut_off`: the recorded run never came to its end, and the new one began with all of its events: so many.
    `lost`: the same for the new run, which this host lost: it tells nothing of what would have come.
    `damaged`: the recorded log is not the one that its digest was made of, which is what was compared.
    """

    difference: Difference | None = None
    cut_off: int | None = None
    lost: int | None = None
    damaged: bool = False


def compare(was: bytes | None, digest: str, now: bytes) -> Comparison:
    """`was` is the recorded log, None when it did not come along; `digest` its sha256 (hex), empty when nobody lived to
    write it.
    """
    damaged = was is not None and altered(was, digest)
    if digest and (was is None or damaged):
        same = _sha256(now) == digest
        return Comparison(None if same else Difference(None, None, None), damaged=damaged)
    was = was or b""
    found = first_difference(was, now)
    if found is None:
        return Comparison()
    return Comparison(found, cut_off=cut_off(was, now), lost=cut_off(now, was))


def altered(log: bytes, digest: str) -> bool:
    """Whether it is another log than the one of that sha256 (hex); of a run without one nobody can say."""
    return bool(digest) and _sha256(log) != digest


def cut_off(log: bytes, other: bytes) -> int | None:
    """How many events there are in the log of a run that never came to its end, when `other` begins with all of them.

    None when it came to its end (the last event is that its machine was released, and none is that it was lost), and
    when it differs before. What the host wrote of the loss is none of those events.
    """
    lines = log.splitlines(keepends=True)
    events = [_event(line) or {} for line in lines]
    lost = next((n for n, one in enumerate(events) if (one.get("on"), one.get("event")) == LOST), None)
    if lost is None and events and events[-1].get("event") in ("released", "release_failed"):
        return None
    there = b"".join(lines[:lost])
    return there.count(b"\n") if other.startswith(there) else None


def _sha256(log: bytes) -> str:
    return hashlib.sha256(log).hexdigest()


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
