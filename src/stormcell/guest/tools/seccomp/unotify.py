"""The kernel's side of a listener (seccomp_unotify(2)): calls that wait for an answer, and the answers."""

from __future__ import annotations

import ctypes
import fcntl
import os
import struct
from typing import NamedTuple

_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_GETFD = 438
_NOTICE = struct.Struct("<QIIiIQ6Q")
_ANSWER = struct.Struct("<QqiI")
_libc = ctypes.CDLL(None, use_errno=True)


class Call(NamedTuple):
    """One that waits. `tid` is the thread's; `number` the system call's."""

    listener: int
    id: int
    tid: int
    number: int


def taken(pidfd: int, descriptor: int) -> int | None:
    """That process's listener as a descriptor of ours; None while it has none there. Raises OSError when it is gone."""
    fd = _libc.syscall(_GETFD, pidfd, descriptor, 0)
    if fd < 0:
        number = ctypes.get_errno()
        if number != 9:  # EBADF: not yet
            raise OSError(number, os.strerror(number))
        return None
    if os.readlink(f"/proc/self/fd/{fd}") != "anon_inode:seccomp notify":
        os.close(fd)
        return None
    os.set_inheritable(fd, False)
    return int(fd)


def received(listener: int) -> Call | None:
    """The next call; None when it went away meanwhile."""
    notice = bytearray(_NOTICE.size)
    try:
        fcntl.ioctl(listener, _RECEIVE, notice)
    except OSError:
        return None
    identity, tid, _, number, *_ = _NOTICE.unpack(notice)
    return Call(listener, identity, tid, number)


def answered(call: Call, errno: int) -> bool:
    """It comes back with that errno, or goes on when that is 0. False when it does not wait any more."""
    try:
        fcntl.ioctl(call.listener, _SEND, _ANSWER.pack(call.id, 0, -errno, 0 if errno else _CONTINUE))
    except OSError:
        return False
    return True
