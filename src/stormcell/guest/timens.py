"""Joining a time namespace (time_namespaces(7)), for the supervisor and the tools."""

from __future__ import annotations

import ctypes
import os

FOLDER = "/run/stormcell/timens"
_CLONE_NEWTIME = 0x80
_libc = ctypes.CDLL(None, use_errno=True)


def held(mark: str) -> str:
    """The file that keeps the namespace of a fault."""
    return f"{FOLDER}/{mark}"


def of_service(name: str) -> str:
    """A link to the namespace that a service is to live in, while a fault asks for that."""
    return f"{FOLDER}/service.{name}"


def make() -> None:
    """A new one for the children of this process. Raises OSError."""
    _check(_libc.unshare(_CLONE_NEWTIME))


def enter(path: str) -> None:
    """This process, which has one thread, lives in that namespace from now on. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.setns(fd, _CLONE_NEWTIME))
    finally:
        os.close(fd)


def _check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
