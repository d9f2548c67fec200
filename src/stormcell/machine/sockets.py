"""Unix sockets of a machine: bound before its process starts, in folders whose path may be long.

A path of a Unix socket is limited to 107 bytes. Binding and connecting go through `/proc/self/fd/N/name`, which has
the length of the name alone.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

from stormcell.spec.errors import SandboxError, SandboxNotFound


def listen(path: Path) -> socket.socket:
    """A listening socket at `path` (mode 0600, an older one is replaced). Connections queue until QEMU accepts."""
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        path.unlink(missing_ok=True)
        end.bind(f"/proc/self/fd/{folder}/{path.name}")
        path.chmod(0o600)
        end.listen(1)
    except BaseException:
        end.close()
        raise
    finally:
        os.close(folder)
    return end


def connect(path: Path) -> socket.socket:
    """A connected, non-blocking socket. Raises SandboxNotFound when nobody listens at `path`."""
    end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            end.connect(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)
    except OSError as error:
        end.close()
        raise SandboxNotFound("the machine does not answer; it is gone", where=str(path), detail=str(error)) from error
    end.setblocking(False)
    return end


class Slot:
    """The right to use one of a machine's sockets of a kind, held by flock until `release`.

    The kernel releases it when this process dies, however it dies.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    def release(self) -> None:
        """Let another process have the socket. Harmless when repeated."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    @classmethod
    def at(cls, folder: Path, kind: str, index: int) -> Slot | None:
        """`<folder>/<kind>.<index>.sock`, or None when it is in use."""
        path = folder / f"{kind}.{index}.sock"
        try:
            fd = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise SandboxNotFound("the machine's folder is gone", where=str(folder)) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return cls(path, fd)

    @classmethod
    def take(cls, folder: Path, kind: str, count: int) -> Slot:
        """The first free one of `<folder>/<kind>.<n>.sock`. Raises SandboxError when all are in use."""
        for index in range(count):
            if slot := cls.at(folder, kind, index):
                return slot
        raise SandboxError(
            f"all {count} {kind} ports of this machine are in use",
            where=str(folder),
            rule=f"at most {count} host processes or channels use one machine at the same time",
            remedy="close one, or run fewer commands side by side",
        )
