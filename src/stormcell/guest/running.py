"""Run one command to its end, its deadline or an interruption: bounded output, and no tree left at the deadline."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import takewhile
from typing import Any, Protocol

from stormcell.guest import batch, spawn
from stormcell.guest.launch import Launcher
from stormcell.guest.lifeline import Lifeline
from stormcell.guest.trees import Forest, Tree

LIMIT = 256 << 10
"""Bytes kept of each of the two outputs of a command."""
_DRAIN = 0.2
"""Seconds after its end that a command's pipes may stay open: a daemon that it left behind may hold them for ever."""
_KILLED = 2.0
_ANSWERS = 8 * LIMIT
"""Bytes of both outputs of a command as JSON, which writes some as six."""
CGROUPS = "/sys/fs/cgroup"


@dataclass(frozen=True)
class Finished:
    """How a command ended: `outcome` is its exit code, "timeout", "signal:N" or "not_started"."""

    outcome: int | str
    out: str
    err: str
    truncated: bool
    seconds: float

    def output(self) -> dict[str, Any]:
        """As an Output of the receipts: `exit` is null when there is no exit code, and `err` ends with the reason."""
        said = {"timeout": "its deadline passed and it was killed", "not_started": "it was not started"}
        code = self.outcome if isinstance(self.outcome, int) else None
        why = "" if code is not None else said.get(str(self.outcome), f"it was ended by {self.outcome}")
        err = self.err if not why else f"{self.err.rstrip()}\n[{why}]".lstrip()
        return {"exit": code, "out": self.out, "err": err, "truncated": self.truncated}


class Run(Protocol):
    """Runs a Command given as JSON."""

    def __call__(self, command: Mapping[str, Any], *, limit: int = LIMIT, tail: bool = False) -> Finished:
        """Keep `limit` bytes of each output: the first ones, or the last with `tail`."""


class RunAll(Protocol):
    """Runs Commands given as JSON, one after the other, and answers how each ended."""

    def __call__(self, commands: Sequence[Mapping[str, Any]], *, until_failure: bool = False) -> list[Finished]:
        """All of them, or with `until_failure` none after the first that failed: then there are fewer answers."""


class Pipe:
    """Reads a child's output as it comes, keeps `limit` bytes of it, and throws the rest away."""

    def __init__(self, lifeline: Lifeline, fd: int, limit: int, tail: bool) -> None:
        self._lifeline = lifeline
        self._fd = fd
        self._limit = limit
        self._tail = tail
        self._kept = bytearray()
        self.truncated = False
        lifeline.loop.watch(fd, self._read)

    @property
    def open(self) -> bool:
        """Not yet at its end."""
        return self._fd >= 0

    @property
    def kept(self) -> bytes:
        """As it came."""
        return bytes(self._kept)

    @property
    def lines(self) -> int:
        """How many of them ended so far."""
        return self._kept.count(b"\n")

    @property
    def text(self) -> str:
        """What was kept; what is no UTF-8 is replaced."""
        return self._kept.decode(errors="replace")

    def close(self) -> None:
        """May be said twice."""
        if self._fd >= 0:
            self._lifeline.loop.unwatch(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self, _events: int) -> None:
        while self._fd >= 0:
            try:
                data = os.read(self._fd, 65536)
            except BlockingIOError:
                return
            if not data:
                self.close()
                return
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        if not self._tail:
            data, rest = data[: self._limit - len(self._kept)], data[self._limit - len(self._kept) :]
            self.truncated |= bool(rest)
        self._kept += data
        if len(self._kept) > self._limit:
            del self._kept[: len(self._kept) - self._limit]
            self.truncated = True


class Process:
    """A started command and its pipes. Raises spawn.NotStarted, also for what only the child could find out.

    With `instead` the child calls that, and the command is not looked at.
    """

    def __init__(
        self,
        lifeline: Lifeline,
        forest: Forest,
        command: Mapping[str, Any],
        *,
        limit: int = LIMIT,
        tail: bool = False,
        instead: Callable[[], int] | None = None,
    ) -> None:
        self._lifeline = lifeline
        self._forest = forest
        self.tree: Tree = forest.plant(command.get("part", ""), command.get("node"))
        self.began = time.monotonic()
        self.status: int | None = None
        self.seconds = 0.0
        self._stdin = memoryview(command.get("stdin", "").encode())
        try:
            self._child = self._spawned(command, instead)
        except spawn.NotStarted:
            forest.fell(self.tree)
            raise
        self.pid = self._child.pid
        self.out = Pipe(lifeline, self._child.stdout, limit, tail)
        self.err = Pipe(lifeline, self._child.stderr, limit, tail)
        self._report = Pipe(lifeline, self._child.report, LIMIT, False)
        self._input = self._child.stdin
        if self._input >= 0:
            lifeline.loop.watch(self._input, self._feed)
        lifeline.loop.watch(self._child.pidfd, self._exit)

    @property
    def ended(self) -> bool:
        """Its main process is over."""
        return self.status is not None

    @property
    def quiet(self) -> bool:
        """It ended, and so did its pipes."""
        return self.ended and not (self.out.open or self.err.open or self._report.open)

    def kill(self) -> None:
        """The whole tree, now; waits a little for the main process."""
        try:
            self.tree.kill(None if self.ended else self.pid)
        except OSError:
            pass
        self._lifeline.settle(lambda: self.quiet, _KILLED)

    def finish(self, *, timed_out: bool = False) -> Finished:
        """Let go of everything. A process that could not be killed is left behind as "timeout"."""
        for pipe in (self.out, self.err, self._report):
            pipe.close()
        self._close_input()
        if not self.ended:
            self._lifeline.loop.unwatch(self._child.pidfd)
            os.close(self._child.pidfd)
        self._forest.fell(self.tree)
        outcome: int | str = "timeout"
        err = self.err.text
        report = self._report.text or (self._child.failure().decode() if self.ended else "")
        if report:
            outcome, err = "not_started", _reason(report)
        elif self.status is not None and not timed_out:
            code = os.waitstatus_to_exitcode(self.status)
            outcome = code if code >= 0 else f"signal:{-code}"
        truncated = self.out.truncated or self.err.truncated
        return Finished(outcome, self.out.text, err, truncated, self.seconds or time.monotonic() - self.began)

    def _spawned(self, command: Mapping[str, Any], instead: Callable[[], int] | None) -> spawn.Child:
        if instead is not None:
            body = partial(spawn.run_as_we_are, instead, self.tree.environment(), command.get("node"))
            return spawn.spawn(body, stdin=False, enter=self.tree.enter)
        cwd, env, user = command.get("cwd") or "/", command.get("env") or {}, command.get("user")
        asked = spawn.Command(command["argv"], cwd, env, user, command.get("node"))
        return spawn.spawn_command(asked, self.tree, stdin=bool(self._stdin), launcher=_launcher(os.getpid()))

    def _exit(self, _events: int) -> None:
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status = status
            self.seconds = time.monotonic() - self.began
            self._lifeline.loop.unwatch(self._child.pidfd)
            os.close(self._child.pidfd)

    def _feed(self, _events: int) -> None:
        while self._stdin and self._input >= 0:
            try:
                self._stdin = self._stdin[os.write(self._input, self._stdin) :]
            except BlockingIOError:
                return
            except OSError:  # nobody reads it
                break
        self._close_input()

    def _close_input(self) -> None:
        if self._input >= 0:
            self._lifeline.loop.unwatch(self._input)
            os.close(self._input)
            self._input = -1


class Runnery:
    """Runs commands one at a time."""

    def __init__(self, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self.forest = Forest(own_cgroup())

    def run(self, command: Mapping[str, Any], *, limit: int = LIMIT, tail: bool = False) -> Finished:
        """To its end, or to the end of `timeout_s`. What interrupts the wait kills the command, then goes on."""
        try:
            process = Process(self._lifeline, self.forest, command, limit=limit, tail=tail)
        except (spawn.NotStarted, OSError) as error:
            return Finished("not_started", "", str(error), False, 0.0)
        in_time = False
        try:
            in_time = self._lifeline.until(lambda: process.ended, command.get("timeout_s", 30.0))
            if in_time:
                self._lifeline.settle(lambda: process.quiet, _DRAIN)
        finally:
            if not in_time:
                process.kill()
            finished = process.finish(timed_out=not in_time)
        return finished

    def run_all(self, commands: Sequence[Mapping[str, Any]], *, until_failure: bool = False) -> list[Finished]:
        """See RunAll. Commands of ours that follow each other share one child (batch.py)."""
        done: list[Finished] = []
        while len(done) < len(commands):
            if until_failure and done and batch.failed(commands[len(done) - 1], done[-1].outcome):
                break
            fits = partial(batch.fits, node=commands[len(done)].get("node"))
            shared = list(takewhile(fits, commands[len(done) :]))
            done += self._shared(shared, until_failure) if len(shared) > 1 else [self.run(commands[len(done)])]
        return done

    def _shared(self, commands: Sequence[Mapping[str, Any]], until_failure: bool) -> list[Finished]:
        """The answers of one child. If it ends before its time, the last one is how: the command that it was at."""
        work = partial(batch.serve, commands, until_failure, LIMIT)
        try:
            place = {"node": commands[0].get("node")}
            process = Process(self._lifeline, self.forest, place, limit=_ANSWERS * len(commands), instead=work)
        except (spawn.NotStarted, OSError) as error:
            return [Finished("not_started", "", str(error), False, 0.0)]
        in_time, told = False, 0
        try:
            while True:
                seconds = commands[min(told, len(commands) - 1)].get("timeout_s", 30.0)
                more = partial(self._more, process, told)
                in_time = self._lifeline.until(more, seconds)
                if process.ended or not in_time:
                    break
                told = process.out.lines
            if in_time:
                self._lifeline.settle(lambda: process.quiet, _DRAIN)
        finally:
            if not in_time:
                process.kill()
            rest = process.finish(timed_out=not in_time)
        answers = batch.answers(process.out.kept)
        done = [Finished(*answer) for answer in answers]
        stopped = until_failure and bool(done) and batch.failed(commands[len(done) - 1], done[-1].outcome)
        return done if len(done) == len(commands) or stopped else [*done, replace(rest, out="")]

    @staticmethod
    def _more(process: Process, told: int) -> bool:
        return process.ended or process.out.lines > told


@cache
def _launcher(_pid: int) -> Launcher | None:
    """Starts programs without copying this process; None where that cannot be done.

    One for each process: it goes by the signals that this one ignores.
    """
    try:
        return Launcher()
    except OSError:
        return None


def own_cgroup() -> str | None:
    """The cgroup v2 folder of this process, if cgroups can be made in it; there, a tree is killed by the kernel."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:
            place = next(line[3:].rstrip("\n") for line in file if line.startswith("0::"))
    except (OSError, StopIteration):
        return None
    folder = CGROUPS + place.rstrip("/")
    usable = place != "/" and os.path.exists(f"{folder}/cgroup.kill") and os.access(f"{folder}/cgroup.procs", os.W_OK)
    return folder if usable and os.access(folder, os.W_OK) else None


def _reason(report: str) -> str:
    try:
        return str(json.loads(report)["message"])
    except (ValueError, KeyError, TypeError):
        return "no reason was given"
