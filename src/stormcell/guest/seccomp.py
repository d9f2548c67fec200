"""Living under a filter of system calls (seccomp(2), seccomp_unotify(2)), for the supervisor's children and the tools.

The filter hands the calls that are meant to a process of ours, which answers each with an errno or lets it go on. That
process takes the listener out of ours by pidfd_getfd(2): once the filter stands, sending it could be such a call.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import struct
from collections.abc import Iterable

FOLDER = "/run/stormcell/seccomp"
ARCH_X86_64 = 0xC000003E
_SECCOMP = 317
_SET_MODE_FILTER = 1
_SPEC_ALLOW, _NEW_LISTENER, _WAIT_KILLABLE = 1 << 2, 1 << 3, 1 << 5
_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06
_NUMBER_AT, _ARCH_AT = 0, 4
_ANSWER_S = 10.0
_libc = ctypes.CDLL(None, use_errno=True)
_kept: list[socket.socket] = []
"""Open until this process becomes its program: by its end the other side knows that it did."""


def address(mark: str) -> str:
    """The socket at which the process of a fault takes newcomers."""
    return f"{FOLDER}/{mark}"


def of_service(name: str) -> str:
    """A link to the socket of the fault that a service is to live under, while one asks for that."""
    return f"{FOLDER}/service.{name}"


def join(path: str) -> None:
    """This process, and all that it starts, live under the fault's filter from now on. Raises OSError."""
    desk = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    desk.settimeout(_ANSWER_S)
    desk.connect(path)
    numbers = json.loads(_line(desk))["calls"]
    listener = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    os.close(listener)  # the next descriptor has the same number
    desk.sendall(json.dumps({"listener": listener}).encode() + b"\n")
    if json.loads(_line(desk)) != {"go": listener}:
        raise OSError(0, "the process of the fault does not take anybody")
    _install(program(numbers))
    _line(desk)
    _kept.append(desk)


def program(numbers: Iterable[int]) -> bytes:
    """The filter: these calls are handed over, all others and those of other call tables (32 bit, x32) go on."""
    steps = [(_LOAD, 0, 0, _ARCH_AT), (_EQUAL, 1, 0, ARCH_X86_64), (_RETURN, 0, 0, _ALLOW), (_LOAD, 0, 0, _NUMBER_AT)]
    for number in numbers:
        steps += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _NOTIFY)]
    return b"".join(struct.pack("<HBBI", *step) for step in [*steps, (_RETURN, 0, 0, _ALLOW)])


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _install(steps: bytes) -> None:
    flags = _SPEC_ALLOW | _NEW_LISTENER | _WAIT_KILLABLE
    filters = _Program(len(steps) // 8, steps)
    if _libc.syscall(_SECCOMP, _SET_MODE_FILTER, flags, ctypes.byref(filters)) < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"the kernel takes no filter ({os.strerror(number)}); a process can live under one")


def _line(desk: socket.socket) -> bytes:
    """One line; nothing comes after it before we speak again."""
    said = b""
    while not said.endswith(b"\n"):
        piece = desk.recv(4096)
        if not piece:
            raise OSError(0, "the process of the fault went away")
        said += piece
    return said
