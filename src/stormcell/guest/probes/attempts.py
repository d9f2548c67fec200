"""Many attempts: at times fixed in advance (open loop), or one after another.

Open loop: a slow answer does not delay the next attempt, so a system that stalls cannot hide it from the measurement
("coordinated omission"). Every attempt has a thread of its own and a deadline for the whole of it.
"""

from __future__ import annotations

import math
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stormcell.guest.measure import NOT_STARTED
from stormcell.guest.probes.waiting import Wait

MOST_IN_FLIGHT = 64
LATE = 0.02
"""Seconds behind its time at which the start of an attempt is worth a word."""
_GRACE = 0.25

Attempt = Callable[[int, float], int | str]
"""`attempt(number, deadline)`: the outcome; a whole number or "connected" for an answer, else the name of an error."""


@dataclass(frozen=True)
class Taken:
    """What a measurement brought. `detail` tells what a reader of the numbers should know."""

    samples: list[list[Any]]
    detail: str = ""


def arrivals(rate: float, seconds: float, seed: str) -> list[float]:
    """When each attempt is due: one in every slot of 1/rate, at a place in its first half that the seed decides."""
    draw = random.Random(seed)
    count = max(1, math.floor(rate * seconds + 1e-9))
    return [(number + draw.random() / 2) / rate for number in range(count)]


class _Flight:
    """Attempts under way. A thread that outlives its deadline (name resolution has none) is left to itself."""

    def __init__(self, attempt: Attempt, timeout: float) -> None:
        self._attempt = attempt
        self._timeout = timeout
        self._lock = threading.Lock()
        self._read, self._write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._open = True
        self._living = 0
        self.begun = time.monotonic()
        self.results: dict[int, list[Any]] = {}

    def start(self, number: int) -> None:
        """Attempt `number`, now."""
        with self._lock:
            self._living += 1
        threading.Thread(target=self._work, args=(number,), daemon=True).start()

    def _work(self, number: int) -> None:
        began = time.monotonic()
        try:
            outcome = self._attempt(number, began + self._timeout)
        except Exception as error:
            outcome = f"error:{type(error).__name__}"
        taken = time.monotonic() - began
        if taken > self._timeout:
            outcome = "timeout"
        answered = isinstance(outcome, int) or outcome == "connected"
        with self._lock:
            self._living -= 1
            if self._open:
                offset = round(began - self.begun, 9)
                self.results[number] = [offset, round(taken, 9) if answered else None, outcome]
                try:
                    os.write(self._write, b"\0")
                except BlockingIOError:  # full of wake-ups: one more would say nothing new
                    pass

    @property
    def living(self) -> int:
        """How many attempts are under way."""
        with self._lock:
            return self._living

    def until(self, moment: float, wait: Wait, done: Callable[[], bool] = lambda: False) -> None:
        """Sleep until the monotonic `moment`, or until `done()`."""
        while not done() and (left := moment - time.monotonic()) > 0:
            if wait(self._read, left):
                try:
                    os.read(self._read, 4096)
                except BlockingIOError:
                    pass

    def close(self) -> dict[int, list[Any]]:
        """What is known by now; nothing is added later."""
        with self._lock:
            if self._open:
                self._open = False
                os.close(self._read)
                os.close(self._write)
        return self.results


def at_times(attempt: Attempt, due: Sequence[float], *, timeout: float, wait: Wait) -> Taken:
    """One attempt at each of the offsets `due`. One that would be the 65th under way is not started, and failed."""
    flight = _Flight(attempt, timeout)
    samples: dict[int, list[Any]] = {}
    behind = 0.0
    try:
        for number, offset in enumerate(due, 1):
            flight.until(flight.begun + offset, wait)
            behind = max(behind, time.monotonic() - flight.begun - offset)
            if flight.living >= MOST_IN_FLIGHT:
                samples[number] = [round(offset, 9), None, NOT_STARTED]
                continue
            samples[number] = [round(time.monotonic() - flight.begun, 9), None, "timeout"]
            flight.start(number)
        flight.until(time.monotonic() + timeout + _GRACE, wait, lambda: flight.living == 0)
    finally:
        samples.update(flight.close())
    notes = []
    if missed := sum(sample[2] == NOT_STARTED for sample in samples.values()):
        notes.append(
            f"{missed} attempts were not started, because {MOST_IN_FLIGHT} were under way; they count as failed"
        )
    if behind > LATE:
        notes.append(f"attempts began up to {behind * 1000:.0f} ms after their time")
    return Taken([samples[number] for number in sorted(samples)], "; ".join(notes))


def one_by_one(
    attempt: Attempt,
    count: int,
    *,
    timeout: float,
    wait: Wait,
    promising: Callable[[list[list[Any]]], bool] | None = None,
) -> Taken:
    """`count` attempts, each begun when the one before it has ended; fewer once they are not `promising`."""
    flight = _Flight(attempt, timeout)
    samples: list[list[Any]] = []
    try:
        for number in range(1, count + 1):
            began = time.monotonic()
            flight.start(number)
            flight.until(began + timeout + _GRACE, wait, lambda number=number: number in flight.results)  # type: ignore[misc]
            samples.append(flight.results.get(number) or [round(began - flight.begun, 9), None, "timeout"])
            if promising is not None and not promising(samples):
                break
    finally:
        flight.close()
    short = count - len(samples)
    return Taken(
        samples, f"broken off after {len(samples)} of {count} attempts: the bounds were out of reach" if short else ""
    )
