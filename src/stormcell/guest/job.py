"""One request served by a child process: its pipes, its end, its deadline, its whole tree."""

from __future__ import annotations

import json
import os
import signal
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from stormcell.guest import wire
from stormcell.guest.loop import Timer
from stormcell.guest.port import Port
from stormcell.guest.spawn import Child
from stormcell.guest.trees import Tree
from stormcell.guest.wire import Frame, Intake, Kind, WireError

GRACE = 2.0
"""Seconds after the kill for pipes to close. A process in uninterruptible sleep may outlast it; it is then counted."""
_REPORT_LIMIT = 16 * 1024
_NAME_LIMIT = 200


class Job:
    """A child whose stdin is fed from INPUT frames and whose pipes flow back as OUTPUT and ERRORS.

    It is finished when the process has exited and both pipes are at their end, as with subprocess.communicate.
    `conclude` turns (wait status or None, timed out, processes left) into the final answer. With a `command` to be
    named by, it goes on as an orphan when the machine was forked.
    """

    def __init__(
        self,
        port: Port,
        stream: int,
        child: Child,
        tree: Tree,
        *,
        timeout: float | None,
        conclude: Callable[[Job], Mapping[str, Any]],
        release: Callable[[Tree], None],
        collect: bool = False,
        command: str = "",
    ) -> None:
        self.timed_out = False
        self.cancelled = False
        self.status: int | None = None
        self.left = 0
        self.collected = bytearray()
        self._port = port
        self._loop = port.loop
        self._stream = stream
        self._child = child
        self._tree = tree
        self._conclude = conclude
        self._release = release
        self._command = command
        self._orphan = False
        self._failure = bytearray()
        self._exited = False
        self._over = False
        self._released = False
        self._stdin = child.stdin
        self._pending: deque[memoryview] = deque()
        self._ending = False
        self._intake = Intake(wire.INPUT_WINDOW)
        self._grace: Timer | None = None
        self._limit = self._loop.after(timeout, self._expire) if timeout is not None else None
        self._report: int = child.report
        self._errors = child.stderr if collect else -1
        self._loop.watch(child.pidfd, self._exit)
        self._loop.watch(child.report, self._read_report)
        self._outlets = [port.add_outlet(stream, Kind.OUTPUT, child.stdout, self._check)]
        if collect:
            self._loop.watch(child.stderr, self._collect)
        else:
            self._outlets.append(port.add_outlet(stream, Kind.ERRORS, child.stderr, self._check))
        if self._stdin >= 0:
            self._loop.watch(self._stdin, self._feed)

    def frame(self, frame: Frame) -> None:
        """INPUT, SIGNAL or CANCEL."""
        if frame.kind == Kind.INPUT:
            self._input(frame.payload)
        elif frame.kind == Kind.SIGNAL:
            self._signal(wire.unpack(frame.payload).get("signal"))
        elif frame.kind == Kind.CANCEL:
            self.cancelled = True
            self._kill()
            for outlet in self._outlets:
                outlet.end()

    def abandon(self) -> None:
        """Kill the tree and forget the request; what is left is waited for in silence."""
        for outlet in self._outlets:
            outlet.end(silent=True)
        self._kill()
        self._over = True
        self._close_stdin()
        self._check()

    def orphan(self) -> Mapping[str, Any] | None:
        """Go on to the end or the deadline with nobody to tell; stdin stays open, and nothing comes."""
        if not self._command:
            self.abandon()
            return None
        self._orphan = True
        for outlet in list(self._outlets):
            outlet.orphan()
        return {"pid": self._child.pid, "command": self._command[:_NAME_LIMIT]}

    def _input(self, data: bytes) -> None:
        if not data:
            self._ending = True
        elif self._ending:
            raise WireError("input after its end")
        else:
            self._intake.received(len(data))
            self._pending.append(memoryview(data))
        self._feed(0)

    def _feed(self, _events: int) -> None:
        while self._pending:
            count = len(self._pending[0])
            if self._stdin >= 0:
                try:
                    count = os.write(self._stdin, self._pending[0])
                except BlockingIOError:
                    return
                except OSError:  # nobody reads it any more: the rest is swallowed, as a shell does
                    self._close_stdin()
            if count < len(self._pending[0]):
                self._pending[0] = self._pending[0][count:]
            else:
                self._pending.popleft()
            if (grant := self._intake.consumed(count)) and not self._over and not self._orphan:
                self._port.send(Kind.CREDIT, self._stream, wire.pack_credit(Kind.INPUT, grant))
        if self._ending:
            self._close_stdin()

    def _signal(self, number: object) -> None:
        if not isinstance(number, int) or not 1 <= number <= 64:
            raise WireError(f"no signal: {number!r}")
        if not self._exited:
            try:
                os.killpg(self._child.pid, number)
            except ProcessLookupError:  # it has not called setsid yet
                signal.pidfd_send_signal(self._child.pidfd, number)
        else:
            for pid in self._tree.pids():
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass

    def _exit(self, _events: int) -> None:
        pid, status = os.waitpid(self._child.pid, os.WNOHANG)
        if pid:
            self._exited = True
            self.status = status
            self._loop.unwatch(self._child.pidfd)
            os.close(self._child.pidfd)
            self._check()

    def _read_report(self, _events: int) -> None:
        while self._report >= 0:
            try:
                data = os.read(self._report, 4096)
            except BlockingIOError:
                return
            self._failure += data
            if not data or len(self._failure) > _REPORT_LIMIT:
                self._loop.unwatch(self._report)
                os.close(self._report)
                self._report = -1
                self._failure += self._child.failure()
                if not self._failure and not self._over and not self._orphan:
                    self._port.send(Kind.STARTED, self._stream, wire.pack({"pid": self._child.pid}))
        self._check()

    def _collect(self, _events: int) -> None:
        while self._errors >= 0:
            try:
                data = os.read(self._errors, 65536)
            except BlockingIOError:
                return
            self.collected += data
            if not data or len(self.collected) > wire.MAX_PAYLOAD:
                self._loop.unwatch(self._errors)
                os.close(self._errors)
                self._errors = -1
        self._check()

    def _expire(self) -> None:
        self.timed_out = True
        self._kill()

    def _kill(self) -> None:
        if self._limit:
            self._limit.cancel()
        try:
            self._tree.kill(None if self._exited else self._child.pid)
        except OSError:
            if not self._exited:
                signal.pidfd_send_signal(self._child.pidfd, signal.SIGKILL)
        if self._grace is None:
            self._grace = self._loop.after(GRACE, self._give_up)

    def _give_up(self) -> None:
        """The kill was not enough to close the pipes. What the host does not take is waited for, nothing else."""
        if any(outlet.open and outlet.blocked for outlet in self._outlets) and not self.cancelled:
            self._grace = self._loop.after(GRACE, self._give_up)
            return
        for outlet in self._outlets:
            outlet.end()
        self._check(forced=True)

    def _check(self, *, forced: bool = False) -> None:
        idle = self._report < 0 and self._errors < 0 and not any(outlet.open for outlet in self._outlets)
        if not self._over and ((self._exited and idle) or forced):
            self._over = True
            self.left = len(self._tree.pids()) if self._grace else 0
            self._close_stdin()
            if not self._orphan:
                self._port.finish(self._stream, self._answer())
        if self._over:
            for timer in (self._limit, self._grace):
                if timer:
                    timer.cancel()
            if self._exited and not self._released:
                self._released = True
                self._loop.soon(lambda: self._release(self._tree))  # behind the answer, which somebody waits for

    def _answer(self) -> Mapping[str, Any]:
        if self._failure:
            try:
                return {"error": {"kind": "spawn", **json.loads(self._failure)}}
            except ValueError:
                return {"error": {"kind": "spawn", "stage": "program", "errno": 0, "message": "no reason was given"}}
        return self._conclude(self)

    def _close_stdin(self) -> None:
        if self._stdin >= 0:
            self._loop.unwatch(self._stdin)
            os.close(self._stdin)
            self._stdin = -1


def ending(job: Job) -> dict[str, Any]:
    """How a command ended. Both codes are None when the process itself could not be killed."""
    code = os.waitstatus_to_exitcode(job.status) if job.status is not None else None
    return {
        "exit_code": code if code is not None and code >= 0 else None,
        "signal": -code if code is not None and code < 0 else None,
        "timed_out": job.timed_out,
        "cancelled": job.cancelled,
        "left": job.left,
    }
