"""What a relay of connections is told to do, and the counts of what it did."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from stormcell.guest.tools.dns import wire

KEYS_KEPT = 64
OTHERS = "(others)"


@dataclass(frozen=True)
class Orders:
    """`do` to `share` of the connections (or answers). Seconds, bytes, bytes a second."""

    do: Literal["first-byte", "slow-body", "abort", "status", "stall", "certificate"]
    share: float = 1.0
    names: tuple[str, ...] = ("*",)
    delay: float | None = None
    jitter: float = 0.0
    rate: int = 0
    after: int = 0
    status: int = 0
    everywhere: bool = False
    """Listen on every address: connections from outside are led to that of the device they came by."""
    problem: str = ""
    issuer: tuple[str, ...] = ()
    trust: str = ""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Orders:
        """From JSON. Raises TypeError for one that is none."""
        lists = {key: tuple(value) for key, value in given.items() if isinstance(value, list)}
        return cls(**{**given, **lists})

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


@dataclass
class Counts:
    """Since the act. `hits` is what the fault did; `outcomes` says how the peers took it."""

    connections: int = 0
    hits: int = 0
    passed: int = 0
    dropped: int = 0
    unreachable: int = 0
    held_least: float = 0.0
    held_most: float = 0.0
    bytes: int = 0
    outcomes: dict[str, int] = field(default_factory=dict)


class Ledger:
    """Orders and counts; may be used from several threads."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.counts = Counts()
        self._lock = threading.Lock()

    def draws(self, name: str = "") -> bool:
        """Does this connection (or answer) meet the fault?"""
        orders = self.orders
        return wire.matches(name, orders.names) and random.random() < orders.share

    def hold(self) -> float:
        """Seconds to wait, drawn anew."""
        orders = self.orders
        return max(0.0, (orders.delay or 0.0) + random.uniform(-orders.jitter, orders.jitter))

    def count(self, what: Literal["connections", "passed", "dropped", "unreachable"]) -> None:
        """One more."""
        with self._lock:
            setattr(self.counts, what, getattr(self.counts, what) + 1)

    def hit(self, held: float | None = None, size: int = 0) -> None:
        """The fault acted once, held something for so long, on so many bytes."""
        with self._lock:
            counts = self.counts
            if held is not None:
                counts.held_least = min(counts.held_least, held) if counts.hits else held
                counts.held_most = max(counts.held_most, held)
            counts.hits += 1
            counts.bytes += size

    def outcome(self, what: str) -> None:
        """How a peer took it."""
        with self._lock:
            outcomes = self.counts.outcomes
            key = what if what in outcomes or len(outcomes) < KEYS_KEPT else OTHERS
            outcomes[key] = outcomes.get(key, 0) + 1

    def answer(self, request: Mapping[str, Any]) -> Any:
        """Our own tools ask: `show`, or `change` to other orders."""
        with self._lock:
            if "change" in request:
                self.orders = Orders.of(request["change"])
            return {"orders": self.orders.as_dict(), **asdict(self.counts)}
