"""The supervisor in PID 1: the agent, the services in order, orphans, and a control socket."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from stormcell.guest import boot, nodes
from stormcell.guest.kernel import write_file
from stormcell.guest.loop import Loop
from stormcell.guest.service import SETTLED, Service, ServiceSpec

SPECS = "/etc/stormcell/services.json"
STATUS = f"{boot.STATE}/services.json"
SOCKET = f"{boot.STATE}/supervisor.sock"
_HELPERS = f"{boot.CGROUPS}/stormcell/helpers"
_LOG_CHECK = 2.0
_AGAIN_DELAY = 0.2


class Supervisor:
    """Owns every child of PID 1. `kept` are by name those that never end: each forks one and returns its pid."""

    def __init__(self, say: Callable[[str], None], kept: Mapping[str, Callable[[], int]]) -> None:
        self.loop = Loop(lambda error: say(f"{type(error).__name__}: {error}"))
        self.services: dict[str, Service] = {}
        self._say = say
        self._kept = kept
        self._children: dict[int, Callable[[int], None]] = {}
        self._queue: deque[Service] = deque()
        self._waiting: list[tuple[Callable[[], bool], _Client]] = []
        self._begun = False
        self._signals = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def run(self) -> None:
        """Serve for ever. Once begun, a second call goes on where an exception left off."""
        if not self._begun:
            self._begun = True
            signal.set_wakeup_fd(self._signals[1], warn_on_full_buffer=False)
            signal.signal(signal.SIGCHLD, lambda *_: None)
            self.loop.watch(self._signals[0], self._reap)
            for name in self._kept:
                self._keep(name)
            os.makedirs(_HELPERS, exist_ok=True)
            self._listen()
            self.loop.soon(self._load_at_boot)
        self.loop.run()

    def child(self, pid: int, ended: Callable[[int], None]) -> None:
        """Call `ended(wait status)` when `pid` is reaped."""
        self._children[pid] = ended

    def changed(self) -> None:
        """Publish the states, start what comes next, answer who waits."""
        states = {name: service.status() for name, service in self.services.items()}
        write_file(f"{STATUS}.new", json.dumps(states))
        os.rename(f"{STATUS}.new", STATUS)
        self.loop.soon(self._proceed)

    def load(self, node: str | None = None) -> None:
        """Read the service list, of that node or of the machine, and start, one after the other, what does not run.

        Raises OSError, ValueError, TypeError.
        """
        for spec in _specs(node):
            known = self.services.get(spec.key)
            if known is None or (known.pid is None and known.spec != spec):
                self.services[spec.key] = Service(
                    spec,
                    self,
                    cgroup=f"{nodes.cgroup(node)}/{spec.name}" if node else f"{boot.SERVICES}/{spec.name}",
                    helpers=_HELPERS,
                    log=f"{boot.STATE}/log/{spec.key}.log",
                )
            if self.services[spec.key].pid is None:
                self.services[spec.key].started = False
                self._queue.append(self.services[spec.key])
        self.changed()

    def _load_at_boot(self) -> None:
        for path, read in ((SPECS, self.load), (boot.NODES, self._load_nodes)):
            if os.path.exists(path):
                try:
                    read()
                except (OSError, ValueError, TypeError, LookupError) as error:
                    self._say(f"{path}: {error}")
        self.loop.after(_LOG_CHECK, self._bound_logs)

    def _load_nodes(self) -> None:
        with open(boot.NODES) as file:
            for node in json.load(file):
                self.load(node["name"])

    def _proceed(self) -> None:
        while self._queue:
            service = self._queue[0]
            if not service.started:
                service.start()
            if service.state not in SETTLED:
                break
            self._queue.popleft()
        still = []
        for met, client in self._waiting:
            if met():
                client.answer({"services": self._states()})
            else:
                still.append((met, client))
        self._waiting = still

    def _keep(self, name: str) -> None:
        def ended(status: int) -> None:
            self._say(f"the {name} ended ({os.waitstatus_to_exitcode(status)}) and is started anew")
            self.loop.after(_AGAIN_DELAY, lambda: self._keep(name))

        self.child(self._kept[name](), ended)

    def _reap(self, _events: int) -> None:
        try:
            while os.read(self._signals[0], 4096):
                pass
        except BlockingIOError:
            pass
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if ended := self._children.pop(pid, None):
                ended(status)

    def _bound_logs(self) -> None:
        for service in self.services.values():
            service.bound_log()
        self.loop.after(_LOG_CHECK, self._bound_logs)

    def _listen(self) -> None:
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        server.bind(SOCKET)
        os.chmod(SOCKET, 0o600)
        server.listen(16)
        self.loop.watch(server.fileno(), lambda _events: self._connect(server))

    def _connect(self, server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except BlockingIOError:
                return
            connection.setblocking(False)
            _Client(self, connection)

    def serve(self, client: _Client, request: Mapping[str, Any]) -> None:
        """One request of the control socket: status, load (of the node `name`), start, stop; the last three
        answer when it is settled."""
        op, name = request.get("op"), request.get("name")
        if op == "status":
            client.answer({"services": self._states()})
        elif op == "load":
            self.load(name)
            self._waiting.append((lambda: not self._queue, client))
        elif op in ("start", "stop") and isinstance(name, str) and (service := self.services.get(name)):
            if op == "start":
                service.start()
            else:
                service.stop()
            self._waiting.append((lambda: service.state in SETTLED, client))
        else:
            client.answer({"error": f"no such request or service: {op} {name}"})
        self.loop.soon(self._proceed)

    def _states(self) -> dict[str, Any]:
        return {name: service.status() for name, service in self.services.items()}


def _specs(node: str | None) -> list[ServiceSpec]:
    with open(SPECS if node is None else boot.NODES) as file:
        found = json.load(file)
    if node is not None:
        found = next((one["services"] for one in found if one["name"] == node), [])
        found = [{**entry, "node": node} for entry in found]
    return [ServiceSpec.read(entry) for entry in found]


class _Client:
    """A connection to the control socket: one JSON line in, one out."""

    def __init__(self, supervisor: Supervisor, connection: socket.socket) -> None:
        self._supervisor = supervisor
        self._connection = connection
        self._held = b""
        supervisor.loop.watch(connection.fileno(), self._edge)

    def _edge(self, _events: int) -> None:
        while self._connection.fileno() >= 0:
            try:
                data = self._connection.recv(4096)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            self._held += data
            if not data or len(self._held) > 8192:
                self._close()
            elif b"\n" in self._held:
                line, _, self._held = self._held.partition(b"\n")
                try:
                    self._supervisor.serve(self, dict(json.loads(line)))
                except (OSError, ValueError, TypeError) as error:
                    self.answer({"error": str(error)})

    def answer(self, message: Mapping[str, Any]) -> None:
        """The last word: the connection is closed."""
        if self._connection.fileno() >= 0:
            try:
                self._connection.setblocking(True)
                self._connection.settimeout(1)
                self._connection.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                pass
            self._close()

    def _close(self) -> None:
        if self._connection.fileno() >= 0:
            self._supervisor.loop.unwatch(self._connection.fileno())
            self._connection.close()
