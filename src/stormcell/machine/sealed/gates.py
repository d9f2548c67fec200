"""The pipes at which a sealed guest stands still (guest/sealed/stop.py), from the host's end."""

from __future__ import annotations

import asyncio
import fcntl
import os
from pathlib import Path

from stormcell.guest.sealed.stop import GATES
from stormcell.machine.sealed.argv import BELL_NAME, GATE_NAMES

_ROOM = 4096
"""One page: a pipe of one page that holds a page takes nothing more until all of that was read (pipe(7))."""


class Gates:
    """All closed when made. `rings` is set when the guest stands at one."""

    def __init__(self, folder: Path) -> None:
        """Makes the pipes in `folder`, which is the machine's own. Raises OSError."""
        self._fds: list[int] = []
        self.rings = asyncio.Event()
        try:
            self._bell = self._made(folder / BELL_NAME)
            self._gates = dict(zip(GATES, [self._made(folder / name) for name in GATE_NAMES], strict=True))
            for port in GATES:
                self.shut(port)
        except OSError:
            self.close()
            raise
        asyncio.get_running_loop().add_reader(self._bell, self._ring)

    def _made(self, path: Path) -> int:
        path.unlink(missing_ok=True)
        os.mkfifo(path, 0o600)
        # for reading and writing, so that neither end ever meets an end of file
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._fds.append(fd)
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _ROOM)
        return fd

    def shut(self, port: int) -> None:
        """The guest will stand there."""
        self.open(port)
        os.write(self._gates[port], bytes(_ROOM))

    def open(self, port: int) -> None:
        """The guest that stands there goes on."""
        _drain(self._gates[port])

    def _ring(self) -> None:
        if _drain(self._bell):
            self.rings.set()

    def close(self) -> None:
        """Let go of them."""
        fds, self._fds = self._fds, []
        for fd in fds:
            asyncio.get_running_loop().remove_reader(fd)
            os.close(fd)


def _drain(fd: int) -> bool:
    """Whether there was anything."""
    found = False
    while True:
        try:
            if not os.read(fd, _ROOM):
                return found
        except BlockingIOError:
            return found
        found = True
