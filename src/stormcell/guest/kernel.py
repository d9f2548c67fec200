"""System calls that the standard library lacks."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND = 2, 4, 8, 4096
_MCL_CURRENT, _MCL_FUTURE = 1, 2


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError."""
    if _libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), data.encode()) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def unmount(target: str) -> None:
    """umount2(2). Raises OSError."""
    if _libc.umount2(target.encode(), 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def detach(target: str) -> None:
    """umount2(2) with MNT_DETACH: what is mounted below goes, too. Raises OSError."""
    if _libc.umount2(target.encode(), 2) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), target)


def lock_memory() -> None:
    """Keep every page of this process, now and later, in memory. Raises OSError."""
    if _libc.mlockall(_MCL_CURRENT | _MCL_FUTURE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def write_file(path: str, text: str) -> None:
    """One write(2) of a file that exists or can be made: files of /proc and /sys take their value in one piece."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


def boot_id() -> str:
    """The kernel's name for this boot; a restored machine keeps it."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
