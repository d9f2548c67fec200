"""One service: its states, its restarts, its log. Driven by the supervisor's loop, never waiting."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from stormcell.guest import nodes, seccomp, spawn, timens
from stormcell.guest.loop import Loop, Timer
from stormcell.guest.spawn import Command

SETTLED = frozenset({"running", "not ready", "failed", "exited", "stopped"})
LOG_LIMIT = 4 * 1024 * 1024
_KEEP = 256 * 1024
_POLL = 0.25
_ATTEMPT = 15.0
_STOP = 10.0


@dataclass(frozen=True)
class ServiceSpec:
    """A line of services.json. Times in seconds; `before`, `ready` are shell texts, run as root."""

    name: str
    command: list[str]
    user: str | None = None
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    restart: str = "always"
    restart_delay: float = 1.0
    ready: str | None = None
    ready_timeout: float = 60.0
    before: str | None = None
    node: str | None = None

    @property
    def key(self) -> str:
        """What the supervisor calls it."""
        return nodes.service_key(self.name, self.node)

    @classmethod
    def read(cls, entry: Mapping[str, Any]) -> ServiceSpec:
        """From decoded JSON; what is null or absent has its default. Raises TypeError, ValueError."""
        spec = cls(**{key: value for key, value in entry.items() if value is not None})
        if not spec.name or "/" in spec.name or spec.name.startswith("."):
            raise ValueError(f"no name for a service: {spec.name!r}")
        if not isinstance(spec.command, list) or not spec.command:
            raise ValueError(f"service {spec.name}: the command must be a list")
        return spec


class Keeper(Protocol):
    """What a service needs of its supervisor."""

    loop: Loop

    def child(self, pid: int, ended: Callable[[int], None]) -> None:
        """Call `ended(wait status)` when `pid` is reaped."""

    def changed(self) -> None:
        """A state changed."""


class Service:
    """States: stopped, before, starting, running, not ready, waiting, stopping, exited, failed."""

    def __init__(self, spec: ServiceSpec, keeper: Keeper, *, cgroup: str, helpers: str, log: str) -> None:
        self.spec = spec
        self.state = "stopped"
        self.pid: int | None = None
        self.start_time: int | None = None
        self.restarts = 0
        self.last_exit: dict[str, int | None] | None = None
        self.reason = ""
        self.started = False
        self.log = log
        self._keeper = keeper
        self._cgroup = cgroup
        self._helpers = helpers
        self._wanted = False
        self._life = 0
        self._report = -1
        self._timer: Timer | None = None

    def status(self) -> dict[str, Any]:
        """For services.json: (pid, start_time) names the process, start_time as in /proc/PID/stat."""
        return {
            "pid": self.pid,
            "start_time": self.start_time,
            "state": self.state,
            "restarts": self.restarts,
            "last_exit": self.last_exit,
            "reason": self.reason,
            "cgroup": self._cgroup,
        }

    def start(self) -> None:
        """Begin, if it is not alive already."""
        self._wanted = self.started = True
        if self.pid is None and self.state not in ("before", "starting"):
            self._begin()

    def stop(self) -> None:
        """SIGTERM, then the whole cgroup after 10 s."""
        self._wanted = False
        self._cancel()
        if self.pid is None:
            self._set("stopped")
            return
        self._set("stopping")
        os.kill(self.pid, signal.SIGTERM)
        self._timer = self._keeper.loop.after(_STOP, self._kill_all)

    def bound_log(self) -> None:
        """Keep the tail of a log that has outgrown its limit; writers append, so they go on behind it."""
        try:
            if os.stat(self.log).st_size <= LOG_LIMIT:
                return
            with open(self.log, "r+b", buffering=0) as file:
                file.seek(-_KEEP, os.SEEK_END)
                tail = file.read(_KEEP)
                file.truncate(0)
            fd = self._open_log()
            try:
                os.write(fd, b"[older lines were dropped]\n" + tail)
            finally:
                os.close(fd)
        except OSError:
            return

    def _begin(self) -> None:
        self._life += 1
        self._cancel()
        os.makedirs(self._cgroup, exist_ok=True)
        if self.spec.before is None:
            self._launch()
            return
        self._set("before")
        self._shell(self.spec.before, self._prepared)

    def _prepared(self, status: int) -> None:
        if not self._wanted:
            self._set("stopped")
        elif status == 0:
            self._launch()
        else:
            self._fail(f"`before` ended with {_exit(status)}")

    def _launch(self) -> None:
        spec = self.spec
        command = Command(spec.command, spec.cwd, spec.env, spec.user)
        self._report, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            pid = self._fork(command, self._cgroup, self._ended, theirs, spec.key)
        except OSError as error:
            os.close(self._report)
            self._fail(f"it cannot be started: {error}")
            return
        finally:
            os.close(theirs)
        self.pid, self.start_time = pid, process_start_time(pid)
        self._set("starting")
        self._keeper.loop.watch(self._report, self._reported)

    def _reported(self, _events: int) -> None:
        """The child's report: why it is not the program, or end-of-file once it is."""
        try:
            said = os.read(self._report, 4096)
        except BlockingIOError:
            return
        self._keeper.loop.unwatch(self._report)
        os.close(self._report)
        self._report = -1
        if said:
            self.reason = json.loads(said)["message"]
            self._log_line(self.reason)
            return
        spec, life = self.spec, self._life
        if spec.ready is None:
            self._set("running")
            return
        self._timer = self._keeper.loop.after(spec.ready_timeout, lambda: self._late(life))
        self._ask(life)

    def _ask(self, life: int) -> None:
        if life == self._life and self.state in ("starting", "not ready") and self.spec.ready:
            self._shell(self.spec.ready, lambda status: self._answered(life, status))

    def _answered(self, life: int, status: int) -> None:
        if life != self._life or self.state not in ("starting", "not ready"):
            return
        if status == 0:
            self._cancel()
            self._set("running")
        else:
            self._keeper.loop.after(_POLL, lambda: self._ask(life))

    def _late(self, life: int) -> None:
        if life == self._life and self.state == "starting":
            self.reason = f"not ready within {self.spec.ready_timeout:g} s"
            self._set("not ready")

    def _ended(self, status: int) -> None:
        if self._report >= 0:
            self._reported(0)
        self.pid = self.start_time = None
        self.last_exit = _exit(status)
        self._cancel()
        self._kill_all()
        self._life += 1
        if not self._wanted:
            self._set("stopped")
        elif self.spec.restart == "always":
            self.restarts += 1
            self._set("waiting")
            self._timer = self._keeper.loop.after(self.spec.restart_delay, self._begin)
        else:
            self._set("exited" if status == 0 else "failed")

    def _fail(self, reason: str) -> None:
        self.reason = reason
        self._set("failed")

    def _kill_all(self) -> None:
        try:
            with open(f"{self._cgroup}/cgroup.kill", "w") as file:
                file.write("1")
        except OSError:
            if self.pid is not None:
                os.kill(self.pid, signal.SIGKILL)

    def _shell(self, text: str, ended: Callable[[int], None]) -> None:
        try:
            pid = self._fork(Command(["/bin/sh", "-c", text]), self._helpers, ended)
        except OSError as error:
            self._fail(str(error))
            return
        start = process_start_time(pid)
        self._keeper.loop.after(_ATTEMPT, lambda: _kill_if(pid, start))

    def _fork(
        self, command: Command, cgroup: str, ended: Callable[[int], None], report: int = -1, service: str = ""
    ) -> int:
        log, node = self._open_log(), self.spec.node
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        fds = (null, log, log, null if report < 0 else report)
        try:
            pid = spawn.fork_into(fds, lambda: spawn.run_command(command, {}), lambda: _join(cgroup, service, node))
        finally:
            os.close(log)
            os.close(null)
        self._keeper.child(pid, ended)
        return pid

    def _log_line(self, text: str) -> None:
        fd = self._open_log()
        os.write(fd, f"stormcell: {text}\n".encode(errors="replace"))
        os.close(fd)

    def _open_log(self) -> int:
        return os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def _cancel(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _set(self, state: str) -> None:
        if state in ("running", "before", "stopped"):
            self.reason = ""
        self.state = state
        self._keeper.changed()


def process_start_time(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat: clock ticks since boot. None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _join(cgroup: str, service: str, node: str | None) -> None:
    """Into its node and cgroup, and under the faults that it has to start under; the filter of calls comes last."""
    if node is not None:
        nodes.enter(node)
    if service and os.path.exists(namespace := timens.of_service(service)):
        timens.enter(namespace)
    fd = os.open(f"{cgroup}/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
    os.write(fd, b"0")
    os.close(fd)
    if service and os.path.exists(desk := seccomp.of_service(service)):
        try:
            seccomp.join(desk)
        except ConnectionRefusedError:  # the fault's process was killed; its receipt says so
            return


def _kill_if(pid: int, start: int | None) -> None:
    if start is not None and process_start_time(pid) == start:
        os.killpg(pid, signal.SIGKILL)


def _exit(status: int) -> dict[str, int | None]:
    code = os.waitstatus_to_exitcode(status)
    return {"exit_code": code, "signal": None} if code >= 0 else {"exit_code": None, "signal": -code}
