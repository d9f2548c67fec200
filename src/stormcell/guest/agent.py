"""The agent: one loop over all agent ports. It never touches the disk itself, so that no disk fault can stop it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stormcell.guest import exec as commands
from stormcell.guest import fileops, files, wire
from stormcell.guest.kernel import boot_id
from stormcell.guest.launch import Launcher
from stormcell.guest.loop import Loop
from stormcell.guest.port import Port
from stormcell.guest.spawn import NotStarted
from stormcell.guest.trees import Forest
from stormcell.guest.wire import WireError

_MOST_STREAMS = 64
"""Over all ports: what bounds the agent's memory."""

Handler = Callable[["Agent", Port, int, Mapping[str, Any]], None]


class Agent:
    """Serves requests on ports. `handlers` maps an operation to what serves it."""

    def __init__(self, *, cgroups: str | None, handlers: Mapping[str, Handler]) -> None:
        self.loop = Loop(failed)
        self.forest = Forest(cgroups)
        self.launcher = _launcher()
        self.generation = ""
        self.orphans: list[Mapping[str, Any]] = []
        self._boot_id = boot_id()
        self._handlers = handlers
        self._ports: list[Port] = []

    def add_port(self, fd: int) -> None:
        """Serve one more port; `fd` becomes non-blocking."""
        self._ports.append(Port(self.loop, fd, accept=self._accept, greet=self.greeting, part=self.part))

    def greeting(self) -> dict[str, Any]:
        """Who answers: the protocol's version, the boot and the life of this machine."""
        return {"version": wire.VERSION, "boot_id": self._boot_id, "generation": self.generation}

    def part(self) -> None:
        """This machine is a fork: who asked for what runs here waits for the answer of the other one."""
        self.orphans = [about for port in self._ports for about in port.orphan()]

    def _accept(self, port: Port, stream: int, payload: bytes) -> None:
        try:
            request = wire.unpack(payload)
            if sum(len(each.streams) for each in self._ports) >= _MOST_STREAMS:
                raise WireError(f"{_MOST_STREAMS} requests are being served")
            if stream in port.streams:
                raise WireError(f"stream {stream} is in use")
            handler = self._handlers.get(str(request.get("op")))
            if handler is None:
                raise WireError(f"no such request: {request.get('op')!r}")
            handler(self, port, stream, request)
        except NotStarted as error:
            answer = {"kind": "spawn", "stage": error.stage, "errno": error.errno, "message": str(error)}
            port.finish(stream, {"error": answer})
        except (WireError, OSError, ValueError) as error:
            port.finish(stream, {"error": {"kind": "request", "message": str(error)}})


def _launcher() -> Launcher | None:
    try:
        return Launcher()
    except OSError:
        return None  # the commands start as copies of this process


def failed(error: Exception) -> None:
    """A defect of ours must not take the control path down; it shows on the console."""
    text = "".join(traceback.format_exception(error))
    try:
        os.write(2, f"stormcell agent: {text}".encode(errors="replace"))
    except OSError:
        pass


def _hello(agent: Agent, port: Port, stream: int, _request: Mapping[str, Any]) -> None:
    port.finish(stream, agent.greeting())


def _orphans(agent: Agent, port: Port, stream: int, _request: Mapping[str, Any]) -> None:
    port.finish(stream, {"orphans": agent.orphans})


def _exec(agent: Agent, port: Port, stream: int, request: Mapping[str, Any]) -> None:
    port.streams[stream] = commands.start(port, stream, request, agent.forest, agent.launcher)


HANDLERS: dict[str, Handler] = {
    "hello": _hello,
    "orphans": _orphans,
    "exec": _exec,
    **dict.fromkeys(fileops.OPERATIONS, files.serve),
}


def main(argv: Sequence[str]) -> int:
    """Serve descriptors that are open already. Identity requests are refused: this is no guest of ours."""
    parser = argparse.ArgumentParser(prog="stormcell-guest agent", description=main.__doc__)
    parser.add_argument("--fd", type=int, action="append", required=True, help="an open stream socket; may be repeated")
    parser.add_argument("--cgroups", help="a cgroup v2 folder for the commands' groups")
    options = parser.parse_args(argv)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    agent = Agent(cgroups=options.cgroups, handlers=HANDLERS)
    for fd in options.fd:
        os.set_inheritable(fd, False)
        agent.add_port(fd)
    agent.loop.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
