"""A command of the host's in a sealed machine: its pipes, its deadline, its whole tree."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from stormcell.guest import spawn
from stormcell.guest.loop import Loop
from stormcell.guest.sealed.mailbox import ERRORS, OUTPUT
from stormcell.guest.spawn import Command, NotStarted
from stormcell.guest.trees import Forest

GRACE_S = 2.0
"""After the kill at its deadline: so long its pipes may stay open."""

Hear = Callable[["Commanded", int, bytes], None]


class Commanded:
    """Runs from its making on; `over` once it was reaped and its pipes are at their end."""

    def __init__(self, loop: Loop, forest: Forest, request: Mapping[str, Any], hear: Hear) -> None:
        """`hear(self, OUTPUT or ERRORS, data)` as it comes. Raises NotStarted, OSError, KeyError, ValueError."""
        self._loop = loop
        self._forest = forest
        self._hear = hear
        self._timed_out = False
        self._status: int | None = None
        self._failure = b""
        self._pending = str(request.get("stdin") or "").encode("utf-8", "surrogateescape")
        self._open = bool(request.get("open"))
        self._tree = forest.plant()
        argv = [str(part) for part in request["argv"]]
        command = Command(argv, request.get("cwd") or "/", request.get("env") or {}, request.get("user"))
        try:
            self._child = spawn.spawn_command(command, self._tree, stdin=True, launcher=None)
        except NotStarted:
            forest.fell(self._tree)
            raise
        self._stdin = self._child.stdin
        self._unread = {self._child.stdout, self._child.stderr, self._child.report}
        self._limit = loop.after(float(request["timeout_s"]), self._expire)
        loop.watch(self._child.stdout, lambda _: self._read(self._child.stdout, OUTPUT))
        loop.watch(self._child.stderr, lambda _: self._read(self._child.stderr, ERRORS))
        loop.watch(self._child.report, lambda _: self._read(self._child.report, 0))
        loop.watch(self._child.pidfd, lambda _: self._reap())
        loop.watch(self._stdin, lambda _: self._feed())

    @property
    def over(self) -> bool:
        """Whether nothing more comes of it."""
        return self._status is not None and not self._unread

    def pids(self) -> list[int]:
        """The command itself and what it forked, not what it started in groups of their own."""
        return self._tree.pids()

    def write(self, data: bytes) -> None:
        """To its standard input."""
        self._pending += data
        self._feed()

    def ending(self) -> dict[str, Any]:
        """How it ended, or why it never began. Lets go of it."""
        self._limit.cancel()
        self._shut_stdin()
        left = len(self._tree.pids()) if self._timed_out else 0
        self._forest.fell(self._tree)
        if self._failure:
            return {"error": json.loads(self._failure)}
        code = os.waitstatus_to_exitcode(self._status or 0)
        return {
            "exit_code": code if code >= 0 else None,
            "signal": -code if code < 0 else None,
            "timed_out": self._timed_out,
            "left": left,
        }

    def _read(self, fd: int, kind: int) -> None:
        while fd in self._unread:
            try:
                data = os.read(fd, 65536)
            except BlockingIOError:
                return
            if not data:
                self._done_with(fd)
            elif kind:
                self._hear(self, kind, data)
            else:
                self._failure += data

    def _done_with(self, fd: int) -> None:
        self._unread.discard(fd)
        self._loop.unwatch(fd)
        os.close(fd)

    def _feed(self) -> None:
        while self._stdin >= 0 and self._pending:
            try:
                self._pending = self._pending[os.write(self._stdin, self._pending) :]
            except BlockingIOError:
                return
            except OSError:  # it reads no more
                self._shut_stdin()
        if not self._pending and not self._open:
            self._shut_stdin()

    def _shut_stdin(self) -> None:
        if self._stdin >= 0:
            self._loop.unwatch(self._stdin)
            os.close(self._stdin)
            self._stdin = -1

    def _reap(self) -> None:
        pid, status = os.waitpid(self._child.pid, os.WNOHANG)
        if pid:
            self._loop.unwatch(self._child.pidfd)
            os.close(self._child.pidfd)
            self._status = status

    def _give_up(self) -> None:
        """What it left in the background may hold its pipes for ever."""
        for fd in list(self._unread):
            self._done_with(fd)

    def _expire(self) -> None:
        self._timed_out = True
        self._tree.kill(None if self._status is not None else self._child.pid)
        self._loop.after(GRACE_S, self._give_up)
