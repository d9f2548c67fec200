"""The host's hand in a sealed machine: serves one request after the other, each given while the machine stands still.

exec      argv, stdin, open, cwd, env, user, timeout_s     a command; `open`: its standard input stays open for
                                                           lines, and its output is lines, each told by itself
resume    as the agent's (resume.py)                       who this machine is from here on, and its entropy

At AWAIT the host gives a line: {"sysrq": KEY}, the end of this machine; {"exec": .., "resume": ..}, another command
that the one under way hands over to, in a fork of the machine; {"hold": true}, the command under way acts no more, and
nothing is asked for from here on; anything else is for the command. In a fork the host may give one at a PASS, too: it
is looked for at every one, so that the instructions are the same wherever there is none.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import Any

from stormcell.guest import boot, resume, watchdog
from stormcell.guest.kernel import write_file
from stormcell.guest.loop import Loop
from stormcell.guest.sealed.commanded import Commanded
from stormcell.guest.sealed.mailbox import AWAIT, ENDED, ERRORS, EXIT, OUTPUT, PASS, READY, Mailbox, frame
from stormcell.guest.sealed.stop import Stops
from stormcell.guest.spawn import NotStarted
from stormcell.guest.trees import Forest

BEAT_S = 0.1
"""So often a machine passes by while a run is under way: the host may stop it there, and nowhere between."""
AWAITS = b'"event": "await"'


class Conductor:
    """Use `serve`; it does not return."""

    def __init__(self, address: int) -> None:
        """`address` is the mailbox's. Raises OSError."""
        self._box = Mailbox(address)
        self._stops = Stops(self._box.memory)
        self._loop = Loop(_failed)
        self._forest = Forest(boot.EXECS)
        self._resume = resume.Resume()
        self._lines = b""
        self._command: Commanded | None = None
        self._begun: list[Commanded] = []

    def serve(self) -> None:
        """For ever."""
        why = READY
        while True:
            request = json.loads(self._stand_still(why))
            self._box.written = 0
            try:
                answer = self._answer(request)
            except (NotStarted, OSError, ValueError, KeyError, TypeError) as error:
                stage, number = getattr(error, "stage", "request"), getattr(error, "errno", 0) or 0
                answer = {"error": {"stage": stage, "errno": number, "message": str(error)}}
            self._box.add(frame(EXIT, json.dumps(answer).encode()))
            why = ENDED

    def _answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request["op"] == "resume":
            return {"generation": self._resume.become(request)}
        if request["op"] != "exec":
            raise ValueError(f"no such request: {request['op']!r}")
        self._begin(request)
        while self._command is None or not self._command.over:
            self._loop.turn()
        return self._command.ending()

    def _begin(self, request: Mapping[str, Any]) -> None:
        lines = bool(request.get("open"))
        self._lines = b""
        command = Commanded(self._loop, self._forest, request, self._hear_lines if lines else self._hear)
        self._command = command
        self._begun = [one for one in self._begun if not one.over] + [command]
        if lines:
            self._beat(command)

    def _stand_still(self, why: int) -> bytes:
        self._box.tell(why, time.monotonic_ns())
        self._stops.stand_still()
        return self._box.take()

    def _pass_by(self, command: Commanded) -> None:
        self._box.tell(PASS, time.monotonic_ns())
        self._stops.pass_by()
        if self._box.due():
            self._go_on(command, self._box.take())

    def _beat(self, command: Commanded) -> None:
        if not command.over and command is self._command:
            self._pass_by(command)
            self._loop.after(BEAT_S, lambda: self._beat(command))

    def _hear(self, _command: Commanded, kind: int, data: bytes) -> None:
        self._box.add(frame(kind, data))

    def _hear_lines(self, command: Commanded, kind: int, data: bytes) -> None:
        if kind == ERRORS or command is not self._command:
            self._hear(command, kind, data)
            return
        *lines, self._lines = (self._lines + data).split(b"\n")
        for line in lines:
            self._box.add(frame(OUTPUT, line + b"\n"))
            self._pass_by(command)
            if AWAITS in line[:200] and command is self._command:
                self._go_on(command, self._stand_still(AWAIT))

    def _go_on(self, command: Commanded, line: bytes) -> None:
        said = json.loads(line)
        if "sysrq" in said:
            write_file("/proc/sysrq-trigger", said["sysrq"])
        elif "exec" in said:
            if said.get("resume"):
                self._resume.become(said["resume"])
            self._begin(said["exec"])
        elif "hold" in said:
            self._hold()
        else:
            command.write(line)

    def _hold(self) -> None:
        """What a runner began stays as it is: it stands still itself, what it forked, and its watchdog.

        In a fork the runner is a command from before, and the one under way only waits for its end.
        """
        self._command = None
        for pid in [pid for one in self._begun if not one.over for pid in one.pids()] + watchdog.pids():
            os.kill(pid, signal.SIGSTOP)


def _failed(error: Exception) -> None:
    sys.stderr.write(f"stormcell conductor: {type(error).__name__}: {error}\n")
