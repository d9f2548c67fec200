"""What becomes of a DNS question, and the counts of what became of all of them."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from stormcell.guest.tools.dns import wire
from stormcell.guest.tools.dns.wire import Question

NAMES_KEPT = 64
OTHERS = "(other names)"


@dataclass(frozen=True)
class Orders:
    """What the fault does: `do` to queries for `names`, to `share` of them. `delay` and `jitter` in seconds."""

    do: Literal["fail", "wrong", "slow"]
    names: tuple[str, ...]
    share: float = 1.0
    rcode: str = "NXDOMAIN"
    addresses: tuple[str, ...] = ()
    ttl: int = 0
    delay: float = 0.0
    jitter: float = 0.0

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
    """Since the act. `answered` is by name and type; held times in seconds."""

    answered: dict[str, int] = field(default_factory=dict)
    passed: int = 0
    passed_answered: int = 0
    passed_unanswered: int = 0
    dropped: int = 0
    probes: int = 0
    held: int = 0
    held_least: float = 0.0
    held_most: float = 0.0

    def hit(self, asked: Question) -> None:
        """The fault answered, or delayed the answer."""
        key = f"{asked.name} {asked.type}"
        if key not in self.answered and len(self.answered) >= NAMES_KEPT:
            key = OTHERS
        self.answered[key] = self.answered.get(key, 0) + 1

    def hold(self, seconds: float) -> None:
        """An answer came to the proxy, and left it so much later."""
        self.held_least = min(self.held_least, seconds) if self.held else seconds
        self.held_most = max(self.held_most, seconds)
        self.held += 1


@dataclass(frozen=True)
class Sentence:
    """What is done with one question: answered with `reply`, or asked further and the answer held for `hold` s."""

    reply: bytes | None = None
    hold: float = 0.0
    hit: bool = False


class Judge:
    """Decides and counts; may be used from several threads."""

    def __init__(self, orders: Orders) -> None:
        self.orders = orders
        self.counts = Counts()
        self.lock = threading.Lock()
        self._ours: set[int] = set()

    def judge(self, message: bytes, port: int) -> Sentence:
        """The question that came from this port of a client."""
        asked = wire.question(message)
        with self.lock:
            ours = port in self._ours
            self.counts.probes += ours
            meant = asked is not None and wire.matches(asked.name, self.orders.names)
            if asked is not None and meant and (ours or random.random() < self.orders.share):
                sentence = self._execute(asked)
                if sentence.hit:
                    if not ours and sentence.reply is not None:
                        self.counts.hit(asked)
                    return sentence
            self.counts.passed += not ours
            return Sentence()

    def _execute(self, asked: Question) -> Sentence:
        orders = self.orders
        if orders.do == "fail":
            return Sentence(wire.response(asked, wire.RCODES[orders.rcode]), hit=True)
        if orders.do == "slow":
            return Sentence(hold=max(0.0, orders.delay + random.uniform(-orders.jitter, orders.jitter)), hit=True)
        if asked.type in ("A", "AAAA"):
            return Sentence(wire.response(asked, 0, orders.addresses, orders.ttl), hit=True)
        return Sentence()

    def came_late(self, message: bytes, port: int, seconds: float) -> None:
        """The answer to this question was held for so long; counted when it is given on."""
        asked = wire.question(message)
        with self.lock:
            if asked is not None and port not in self._ours:
                self.counts.hit(asked)
                self.counts.hold(seconds)

    def count(self, what: Literal["passed_answered", "passed_unanswered", "dropped"]) -> None:
        """One more."""
        with self.lock:
            setattr(self.counts, what, getattr(self.counts, what) + 1)

    def answer(self, request: Mapping[str, Any]) -> Any:
        """Questions of our own tools: `show`, `change` to other orders, or a `port` that our own probe asks from."""
        with self.lock:
            if "ours" in request:
                self._ours = {int(request["ours"])}
            if "change" in request:
                self.orders = Orders.of(request["change"])
            return {"orders": self.orders.as_dict(), **asdict(self.counts)}
