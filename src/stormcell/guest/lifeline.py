"""The runner's only way to wait, so that everything which must end a run is heard while it waits."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from stormcell.guest.loop import Loop, Timer

_LONGEST_LINE = 16 << 20
_NAP_S = 0.1
"""A signal is heeded after at most so long."""
_READABLE = select.EPOLLIN | select.EPOLLHUP | select.EPOLLERR


class Stop(Exception):
    """The run ends early: `code` is stable, for programs; `text` is for people."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class HandOver(Stop):
    """Another plan is to be carried out from here on. `keep`: what was begun stays, instead of being undone."""

    def __init__(self, keep: bool) -> None:
        super().__init__("handed_over", "another plan takes over")
        self.keep = keep


class Lifeline:
    """Waits on one epoll loop, which also serves the host's lines, signals, the deadline and the loads' outputs.

    `control` is the descriptor on which the host writes lines; its end means that the host is gone. None: no host.
    Once `closing` is set nothing interrupts any more: what was begun is being undone.
    """

    def __init__(self, control: int | None) -> None:
        self.closing = False
        self.began = time.monotonic()
        self.lines: list[dict[str, Any]] = []
        self._stop: Stop | None = None
        self._failure: Exception | None = None
        self._pending = b""
        self.loop = Loop(self._failed)
        self._control = -1
        self._limit: Timer | None = None
        if control is not None:
            self._follow(control)

    def _follow(self, control: int) -> None:
        os.set_blocking(control, False)
        self._control = control
        self.loop.watch(control, self._read)

    def begin_again(self, control: int) -> None:
        """Another host, in a fork of this machine: its lines from here on, and time from here on."""
        if self._control >= 0:
            self.loop.unwatch(self._control)
            os.close(self._control)
        self.lines.clear()
        self._stop = None
        self._pending = b""
        self.began = time.monotonic()
        self._follow(control)

    def now(self) -> float:
        """Seconds since this runner began."""
        return time.monotonic() - self.began

    def stop(self, code: str, text: str) -> None:
        """End the run at the next moment it waits; the first reason counts."""
        if self._stop is None:
            self._stop = Stop(code, text)

    def deadline(self, seconds: float) -> None:
        """Stop when the run has not ended by then; instead of the deadline before."""
        if self._limit is not None:
            self._limit.cancel()
        self._limit = self.loop.after(
            seconds, lambda: self.stop("deadline", f"the run did not end within {seconds:g} s")
        )

    def heed_signals(self) -> None:
        """SIGTERM, SIGINT and SIGHUP interrupt the run."""
        read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self.loop.watch(read, lambda _events: _drain(read))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda number, _frame: self.stop("interrupted", f"the runner got signal {number}"))

    def until(self, done: Callable[[], bool], seconds: float | None) -> bool:
        """Wait for `done()`; False when `seconds` are over first. Raises Stop."""
        end = None if seconds is None else time.monotonic() + seconds
        timer = None if seconds is None else self.loop.after(seconds, lambda: None)
        try:
            while True:
                self._check()
                if done():
                    return True
                if end is not None and time.monotonic() >= end:
                    return False
                self.loop.turn()
        finally:
            if timer is not None:
                timer.cancel()

    def settle(self, done: Callable[[], bool], seconds: float) -> bool:
        """The same for short waits of our own, which nothing interrupts."""
        closing, self.closing = self.closing, True
        try:
            return self.until(done, seconds)
        finally:
            self.closing = closing

    def sleep(self, seconds: float | None) -> None:
        """Raises Stop. None: until then."""
        self.until(lambda: False, seconds)

    def nap(self, seconds: float) -> None:
        """Sleep to the microsecond, for which epoll_wait(2) is too coarse. Raises Stop."""
        end = time.monotonic() + seconds
        while True:
            self._check()
            left = end - time.monotonic()
            if left <= 0:
                return
            due = self._limit.due - time.monotonic() if self._limit is not None else left
            heard = [self._control] if self._control >= 0 else []
            if select.select(heard, [], [], max(0.0, min(left, due, _NAP_S)))[0]:
                self._read(0)
            if due <= 0:
                self.loop.turn()

    def wait(self, fd: int, seconds: float) -> bool:
        """The `Wait` of the probes. Raises Stop."""
        ready: list[int] = []
        self.loop.watch(fd, ready.append)
        try:
            return self.until(lambda: any(events & _READABLE for events in ready), seconds)
        finally:
            self.loop.unwatch(fd)

    def line(self, seconds: float | None) -> dict[str, Any]:
        """The next line of the host. Raises Stop; TimeoutError."""
        if not self.until(lambda: bool(self.lines), seconds):
            raise TimeoutError
        return self.lines.pop(0)

    def _check(self) -> None:
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure
        if self._stop is not None and not self.closing:
            raise self._stop

    def _failed(self, error: Exception) -> None:
        if self.closing:
            sys.stderr.write(f"stormcell-guest: {type(error).__name__}: {error}\n")
        else:
            self._failure = error

    def _read(self, _events: int) -> None:
        while True:
            try:
                data = os.read(self._control, 65536)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.loop.unwatch(self._control)
                self.stop("interrupted", "the host's end of the runner's input was closed")
                return
            *lines, self._pending = (self._pending + data).split(b"\n")
            for line in lines:
                self._heard(line)
            if len(self._pending) > _LONGEST_LINE:
                self._pending = b""
                self.stop("runner_error", "the host sent a line of more than 16 MiB")

    def _heard(self, line: bytes) -> None:
        try:
            said = json.loads(line)
        except ValueError:
            said = None
        if not isinstance(said, dict):
            self.stop("runner_error", f"the host sent a line that is no JSON object: {line[:80]!r}")
        elif "stop" in said:
            self.stop(str(said["stop"]), str(said.get("text", "the host asked for it")))
        elif "hand_over" in said:
            self._stop = self._stop or HandOver(keep=bool(said["keep"]))
        else:
            self.lines.append(said)


def _drain(fd: int) -> None:
    try:
        while os.read(fd, 4096):
            pass
    except BlockingIOError:
        pass
