"""A part of the runner that goes on beside it: a child that writes events for its parent to pass on.

The child sees the end of its control pipe when the parent wants it to stop, or is gone; then it ends what it began.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any

from stormcell.guest.lifeline import Lifeline, Stop

_PIECE = 65536
_GRACE_S = 60.0
_KILLED_S = 5.0


class Child:
    """What the child itself sees. `lifeline` ends with Stop `interrupted` when it shall stop."""

    def __init__(self, lifeline: Lifeline, events: int) -> None:
        self.lifeline = lifeline
        self._events = events

    def emit(self, event: str, **fields: Any) -> None:
        """To the parent, with the time at which it was. Never raises: what was begun must be undone."""
        line = json.dumps({"event": event, "at": round(self.lifeline.now(), 9), **fields}, allow_nan=False) + "\n"
        data = memoryview(line.encode())
        try:
            while data:
                data = data[os.write(self._events, data) :]
        except OSError:
            pass


class Offspring:
    """The parent's end. `heard(fields)` is called for each event of the child, in the parent's loop."""

    def __init__(
        self, lifeline: Lifeline, work: Callable[[Child], None], heard: Callable[[Mapping[str, Any]], None]
    ) -> None:
        self._lifeline = lifeline
        self._heard = heard
        self._pending = b""
        self._ending = False
        events_read, events_write = os.pipe2(os.O_CLOEXEC)
        control_read, self._control = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            _live(lifeline.began, work, control_read, events_write)
        os.close(events_write)
        os.close(control_read)
        self._pidfd = os.pidfd_open(self.pid)
        os.set_blocking(events_read, False)
        self._events = events_read
        lifeline.loop.watch(events_read, lambda _events: self._read())

    @property
    def ended(self) -> bool:
        """It wrote its last event."""
        return self._events < 0

    def stop(self) -> None:
        """Let it end what it began, and wait for it; then it is killed. May be said twice."""
        self._ending = True
        if self._control >= 0:
            os.close(self._control)
            self._control = -1
        if not self._lifeline.settle(lambda: self.ended, _GRACE_S):
            self.kill()

    def ignore(self) -> None:
        """It goes on, and is not heard any more."""
        self._ending = True
        self._heard = lambda _: None

    def kill(self) -> None:
        """Now."""
        self._ending = True
        if self.ended:
            return
        try:
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._lifeline.settle(lambda: self.ended, _KILLED_S)

    def _read(self) -> None:
        while self._events >= 0:
            try:
                data = os.read(self._events, _PIECE)
            except BlockingIOError:
                return
            *lines, self._pending = (self._pending + data).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))
            if not data:
                self._lifeline.loop.unwatch(self._events)
                os.close(self._events)
                self._events = -1
                _, status = os.waitpid(self.pid, 0)
                os.close(self._pidfd)
                if status and not self._ending:
                    self._hear({"event": "stop", "code": "runner_error", "text": f"it died (wait status {status})"})

    def _hear(self, said: Mapping[str, Any]) -> None:
        self._ending |= said["event"] == "stop"  # it says itself why it ends
        self._heard(said)


def keep_only(*descriptors: int) -> None:
    """Close what a forked child has no business with: all but these and the standard ones."""
    kept = sorted({0, 1, 2, *descriptors})
    for low, high in zip(kept, [*kept[1:], os.sysconf("SC_OPEN_MAX")], strict=True):
        os.closerange(low + 1, high)


def _live(began: float, work: Callable[[Child], None], control: int, events: int) -> None:
    """The child's whole life; never returns."""
    code = 1
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # the parent tells; a Ctrl-C goes to the whole group
        signal.set_wakeup_fd(-1)
        keep_only(control, events)
        lifeline = Lifeline(control)
        lifeline.began = began
        child = Child(lifeline, events)
        try:
            work(child)
            code = 0
        except Stop as stop:
            if stop.code != "interrupted":
                child.emit("stop", code=stop.code, text=stop.text)
        except Exception as error:
            child.emit("stop", code="runner_error", text=f"{type(error).__name__}: {error}")
    finally:
        os._exit(code)
