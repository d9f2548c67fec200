"""Disturb the scheduler by a seed: at random moments the processor is taken away, and somebody has to wait.

A process of ours in the real-time class wakes at a moment that nobody in the guest chose, so whoever runs then is
stopped between two instructions. It keeps the processor for a while; meanwhile timers expire and others become ready.
Half of the time a thread that was running or ready is made SCHED_IDLE up to the next moment, so that it is also the
last to go on. Nothing is ever stopped, no signal is sent, and no system call returns otherwise than it would have: an
interrupt and a busy neighbour could have done the same to the order.

Lengths are spread evenly over orders of magnitude, since a race's window may be microseconds or milliseconds wide. The
idea that few, well-placed changes of priority find most races is that of PCT (Burckhardt et al., ASPLOS 2010), and
rr's chaos mode.
"""

from __future__ import annotations

import math
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stormcell.guest.lifeline import Lifeline, Stop
from stormcell.guest.offspring import Child
from stormcell.guest.tools.schedule.workload import Thread, Workload

SHORTEST_S = 1e-4
LONGEST_S = 1e-2
_LOOK_S = 0.5
_PRIORITY = 1
_MOST = 16
"""Threads that are looked at in one moment; a look takes the kernel some ten microseconds each."""
_POLICY = os.SCHED_IDLE
_PLAIN = os.sched_param(0)


@dataclass(frozen=True)
class Moment:
    """One disturbance, `at` seconds after the beginning. `pick`, 0 to 1, says which thread is meant."""

    number: int
    at: float
    lasts: float
    demotes: bool
    pick: float


def moments(seed: int | str, gap: float) -> Iterator[Moment]:
    """Without end, `gap` seconds apart on average. The same seed gives the same moments."""
    draw = random.Random(f"{seed}/schedule")
    at, number = 0.0, 0
    while True:
        at += draw.expovariate(1 / gap)
        lasts = SHORTEST_S * math.exp(draw.random() * math.log(LONGEST_S / SHORTEST_S))
        yield Moment(number, at, lasts, draw.random() < 0.5, draw.random())
        number += 1


class Noise:
    """Moments from `first` to before `last` (None: without end). Leaves every thread as it was found."""

    def __init__(self, seed: int | str, gap: float, first: int = 0, last: int | None = None) -> None:
        self._moments = moments(seed, gap)
        self._first, self._last = first, last
        self._workload = Workload()
        self._demoted: tuple[Thread, int, os.sched_param] | None = None
        self._demoting = False
        self.told: dict[str, Any] = {"moments": 0, "met": 0, "demoted": 0, "seconds": 0.0, "threads": 0}
        """`met`: moments at which a thread of the workload was running or ready, so that its turn was changed."""

    def perform(self, nap: Callable[[float], None]) -> None:
        """`nap(seconds)` sleeps, and raises what ends this. Returns when the last moment is over."""
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
        began = looked = time.monotonic()
        self._look()
        try:
            for moment in self._moments:
                if self._last is not None and moment.number >= self._last:
                    return
                if moment.number < self._first:
                    continue
                nap(max(0.0, began + moment.at - time.monotonic()))
                now = time.monotonic()
                self._give_back()
                if now - looked > _LOOK_S:
                    looked = now
                    self._look()
                self._disturb(moment, now)
        finally:
            self._give_back()
            self._look()
            self._workload.close()
            self.told["seconds"] = round(self.told["seconds"], 6)

    def _disturb(self, moment: Moment, now: float) -> None:
        everyone = _some(list(self._workload.threads.values()), moment.pick)
        ready = [thread for thread in everyone if thread.runnable()]
        self.told["moments"] += 1
        self.told["met"] += bool(ready)
        if moment.demotes and everyone:
            pool = ready or everyone
            self._demote(pool[int(moment.pick * len(pool))])
        while time.monotonic() < now + moment.lasts:
            pass
        self.told["seconds"] += time.monotonic() - now

    def _demote(self, thread: Thread) -> None:
        try:
            was = os.sched_getscheduler(thread.tid)
            param = os.sched_getparam(thread.tid)
            os.sched_setscheduler(thread.tid, _POLICY, _PLAIN)
        except OSError:  # it ended
            return
        self._demoted = (thread, was, param)
        self._demoting = True
        self.told["demoted"] += 1

    def _give_back(self) -> None:
        held, self._demoted = self._demoted, None
        if held is None:
            return
        thread, was, param = held
        try:
            if thread.runnable() is not None:
                os.sched_setscheduler(thread.tid, was, param)
        except OSError:  # it ended
            pass

    def _look(self) -> None:
        """Also gives back what a thread inherited that was begun by one while it was demoted (sched(7))."""
        new = self._workload.look()
        if self._demoting:
            self._demoting = False
            for thread in new:
                try:
                    if os.sched_getscheduler(thread.tid) == _POLICY:
                        os.sched_setscheduler(thread.tid, os.SCHED_OTHER, _PLAIN)
                except OSError:
                    pass
        self.told["threads"] = max(self.told["threads"], len(self._workload.threads))


def _some(threads: list[Thread], pick: float) -> list[Thread]:
    """At most _MOST of them, beginning at another one each time."""
    first = int(pick * len(threads))
    return (threads[first:] + threads[:first])[:_MOST]


def work(seed: int | str, gap: float, first: int, last: int | None) -> Callable[[Child], None]:
    """For an Offspring: disturbs until it is stopped, then writes one `noise` event with what was done."""

    def disturb(child: Child) -> None:
        noise = Noise(seed, gap, first, last)
        try:
            noise.perform(child.lifeline.nap)
            child.lifeline.sleep(None)
        finally:
            os.sched_setscheduler(0, os.SCHED_OTHER, _PLAIN)
            child.emit("noise", **noise.told)

    return disturb


def main(argv: list[str]) -> int:
    """`schedule-noise SEED GAP SECONDS`: disturb for so long, or until SIGTERM; prints what was done."""
    import json

    try:
        seed, gap, seconds = argv[0], float(argv[1]), float(argv[2])
        if gap <= 0:
            raise ValueError
    except (IndexError, ValueError):
        sys.stderr.write("usage: stormcell-guest schedule-noise SEED GAP_SECONDS SECONDS\n")
        return 2
    lifeline = Lifeline(None)
    lifeline.heed_signals()
    lifeline.deadline(seconds)
    noise = Noise(seed, gap)
    try:
        noise.perform(lifeline.nap)
    except Stop:
        pass
    sys.stdout.write(json.dumps(noise.told) + "\n")
    return 0
