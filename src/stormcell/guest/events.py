"""One JSON event a line, as it happens.

Each has `n` (counted from 0, without a gap), `t` (seconds since the runner began) and `event`; most have `step` and
`phase`. The others by `event`:

    begin      boot_id, generation, wall, pid
    step       a step begins
    needs      fault, missing: [reason, ...]
    output     exit (null: it did not end by itself), out, err, truncated
    load       load, state: started {pid} | goes_on {pid} | exited {exit, out, err, truncated, seconds} |
               stopped {..., note}; `goes_on`: in a fork of the machine
    probe      probe, vantage, began, samples, metrics, checks, holds, measured, detail     (measure.report)
    watchdog   pid, ttl_s: armed, before the first act
    reading    fault, label: before | during | after | undone, reading
    receipt    fault, undo: written before the act, placeholders filled in
    applied    fault, ok, outputs, tried, since: when the act began, and when it was done
    undone     fault, ok, outputs, until: when the undo began
    inventory  label: before {sizes} | between, undone {differences: [{what, name, before, undone}]}
    moment     fault, number, do, level: a turn of a schedule begins
    over       fault: its schedule is at its end, and leaves it in force
    abort      condition, checks, text: an abort condition is met
    recovered_by  who, why, text: the watchdog has undone what the runner did not
    recovered  probe, vantage, attempts, began_s, seconds, and the last try as in `probe`

The readings, receipts and acts of a schedule have a `cycle` (each act or change in place is one, from 0; 0 is not
written), a `level` (of a ramp) and `at`, the time at which it was; `t` is when it was passed on.

    moment     looks, seconds, text: the moment of the fork has come

    await      a step of the host's; {"go": step} is waited for
    stop       code, text: the run ends early; what was begun is undone after this
    end        always the last one
"""

from __future__ import annotations

import json
import os
import select
from collections.abc import Callable
from typing import Any

_PIECE = select.PIPE_BUF
_PATIENCE = 30.0
"""Seconds to wait for a reader. A run whose events nobody takes is a run without a host."""


class Events:
    """Writes events to a descriptor; `n` counts them. `lost` is called once, when nobody reads any more."""

    def __init__(self, fd: int, now: Callable[[], float], lost: Callable[[str], None]) -> None:
        self._fd = fd
        self._now = now
        self._lost = lost
        self._gone = False
        self._next = 0
        self.step = ""
        self.phase = ""

    def begin_again(self, fd: int) -> None:
        """To somebody else, and counted anew."""
        os.close(self._fd)
        self._fd, self._gone, self._next = fd, False, 0

    def emit(self, event: str, **fields: Any) -> None:
        """Write one event. Never raises: what was begun must be undone, whether or not somebody reads of it."""
        record = {"n": self._next, "t": round(self._now(), 9), "event": event}
        if self.step:
            record |= {"step": self.step, "phase": self.phase}
        self._next += 1
        self._write(json.dumps(record | fields, allow_nan=False).encode() + b"\n")

    def _write(self, data: bytes) -> None:
        """A pipe that polls as writable takes PIPE_BUF bytes without blocking (pipe(7))."""
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        for start in range(0, len(data), _PIECE):
            if self._gone:
                return
            try:
                if not poll.poll(_PATIENCE * 1000):
                    self._give_up(f"nobody read the events for {_PATIENCE:g} s")
                else:
                    os.write(self._fd, data[start : start + _PIECE])
            except OSError as error:
                self._give_up(f"the events could not be written ({error.strerror})")

    def _give_up(self, why: str) -> None:
        self._gone = True
        self._lost(why)
