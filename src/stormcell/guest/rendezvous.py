"""Where a runner is handed the rest of its plan, in each fork of its machine.

The runner of a forked machine goes on without the host that began it. It listens on a socket; `join`, a command of the
host that has the fork, passes its own standard input and output through it, and stays until the runner is at its end.
So the loads that the runner began stay its children, and what they say is heard in every fork.
"""

from __future__ import annotations

import os
import socket
import sys

from stormcell.guest.lifeline import Lifeline

PATH = "/run/stormcell/runner.sock"
_DESCRIPTORS = 2


def _path() -> str:
    return os.environ.get("STORMCELL_RUNNER", PATH)


class Rendezvous:
    """The runner's end. Listens when this returns; use as a context manager."""

    def __init__(self, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
        self._forget()
        self._listener.bind(_path())
        os.chmod(_path(), 0o600)
        self._listener.listen(1)

    def __enter__(self) -> Rendezvous:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self._forget()

    def _forget(self) -> None:
        try:
            os.unlink(_path())
        except FileNotFoundError:
            pass

    def meet(self) -> tuple[int, int, socket.socket]:
        """The descriptors of the host's lines and of the events, and what `join` waits on. Raises Stop."""
        while True:
            while not self._lifeline.wait(self._listener.fileno(), 3600):
                pass
            other, _ = self._listener.accept()
            other.settimeout(5.0)
            try:
                _, found, _, _ = socket.recv_fds(other, 1, _DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
            except OSError:
                found = []
            if len(found) == _DESCRIPTORS:
                return found[0], found[1], other
            for fd in found:
                os.close(fd)
            other.close()


def main(_argv: list[str]) -> int:
    """`join`: exit code 0 when the runner has ended, 1 when none waits."""
    call = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        call.connect(_path())
        socket.send_fds(call, [b"."], [0, 1])
    except OSError as error:
        sys.stderr.write(f"stormcell-guest: no runner waits to be joined ({error.strerror})\n")
        return 1
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(null, fd)  # their ends are the runner's to make
    try:
        call.recv(1)
    except OSError:
        pass
    return 0
