"""What a ledger knows of one execution, and the few things that can be written into it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

State = Literal["claimed", "finished", "free"]


@dataclass(frozen=True)
class Entry:
    """`claimed`: somebody runs it, or died doing so. `free`: it may be run, also once more. `finished`: never again."""

    state: State = "free"
    attempts: int = 0
    facts: Mapping[str, Any] | None = None
    """What was written with `finish`."""
    why: str = ""
    """Of the last `release`."""


class Wrong(ValueError):
    """A line that no ledger writes after the lines before it."""


def after(entry: Entry, line: Mapping[str, Any]) -> Entry:
    """The entry after one line about it. Raises Wrong: the one place that says what may follow what."""
    match line.get("do"), entry.state:
        case "claim", "free":
            return Entry("claimed", entry.attempts + 1)
        case "finish", "claimed":
            return replace(entry, state="finished", facts=dict(line.get("facts") or {}))
        case "release", "claimed":
            return replace(entry, state="free", why=str(line.get("why") or ""))
        case "reopen", "finished":
            return replace(entry, state="free", facts=None, why=str(line.get("why") or ""))
        case do, state:
            raise Wrong(f"'{do}' of an execution that is {state}")


class Ledger(Protocol):
    """Each execution is claimed before it is begun and finished once. One writer at a time."""

    def entry(self, execution: str) -> Entry:
        """Its state now."""

    def claim(self, execution: str) -> int:
        """Take it; durable when this returns. Returns the number of the attempt, from 1. Raises Wrong, NoSpace."""

    def finish(self, execution: str, facts: Mapping[str, Any]) -> None:
        """It came to an end, which `facts` say. Raises Wrong, NoSpace."""

    def release(self, execution: str, why: str) -> None:
        """It was claimed and nothing came of it: it may be claimed again. Raises Wrong, NoSpace."""

    def reopen(self, execution: str, why: str) -> None:
        """It was finished, and somebody wants it once more. Raises Wrong, NoSpace."""
