"""How much room a file system has, and whether a write by some user is really refused."""

from __future__ import annotations

import ctypes
import os
import pwd
import struct
from collections.abc import Callable
from typing import Any

from stormcell.guest.tools import refusals

ATTEMPTS = 3
CHUNK = 64 << 10
PROBE = ".stormcell-probe"
_PR_SET_KEEPCAPS, _CAPABILITY_VERSION, _DAC_OVERRIDE = 8, 0x20080522, 1 << 1
_libc = ctypes.CDLL(None, use_errno=True)
_RESULT = struct.Struct("=HHH")


def room(path: str) -> dict[str, int]:
    """Bytes and inodes. `available` is what an ordinary user may take; ext4 keeps some of `free` for root."""
    told = os.statvfs(path)
    unit = told.f_frsize
    return {
        "unit": unit,
        "size": told.f_blocks * unit,
        "free": told.f_bfree * unit,
        "available": told.f_bavail * unit,
        "inodes": told.f_files,
        "inodes_available": told.f_favail,
    }


def bytes_left_for(user: str, told: dict[str, int]) -> int:
    """What this user may take."""
    return told["free"] if uid(user) == 0 else told["available"]


def share(leave: str, whole: int) -> int:
    """`5%` of the whole, or a plain number."""
    return int(whole * float(leave[:-1]) / 100) if leave.endswith("%") else int(leave)


def folder(path: str) -> str:
    """Raises NotADirectoryError: the filler needs a folder to lie in."""
    if not os.path.isdir(path):
        raise ValueError(f"{path} is no folder in this guest")
    return path


def try_write(path: str, user: str, beyond: int) -> dict[str, Any]:
    """Write a little more than `beyond` bytes as `user`, several times, to an unnamed file in the folder.

    The file is opened as root, so that the answer is about room and not about permissions.
    """
    place = os.path.join(path, PROBE)

    def attempt(fd: int) -> int:
        if beyond:
            os.posix_fallocate(fd, 0, beyond + CHUNK)
            return CHUNK
        return os.pwrite(fd, b"\0" * CHUNK, 0)

    def body() -> tuple[int, int]:
        refusals.call_me("probe")
        fd = os.open(place, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.unlink(place)
        os.fchown(fd, uid(user), -1)  # quotas ask whose file it is
        _become(user)
        return _count(lambda: attempt(fd), lambda: os.ftruncate(fd, 0))

    return _in_child(body)


def try_create(path: str) -> dict[str, Any]:
    """Create a file in the folder, several times."""
    place = os.path.join(path, PROBE)

    def attempt() -> int:
        os.close(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return CHUNK

    def again() -> None:
        if os.path.lexists(place):
            os.unlink(place)

    def body() -> tuple[int, int]:
        refusals.call_me("probe")
        return _count(attempt, again)

    return _in_child(body)


def try_create_as(path: str, user: str, beyond: int) -> dict[str, Any]:
    """Create one more than `beyond` unnamed files in the folder as `user`, several times.

    The user may write there for this (CAP_DAC_OVERRIDE), so that the answer is about room and not about permissions.
    """

    def attempt() -> int:
        flags = os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC
        held: list[int] = []
        try:
            for _ in range(beyond + 1):
                held.append(os.open(path, flags, 0o600))
        finally:
            for fd in held:
                os.close(fd)
        return CHUNK

    def body() -> tuple[int, int]:
        refusals.call_me("probe")
        _become(user, keep_override=True)
        return _count(attempt, lambda: None)

    return _in_child(body)


def _count(attempt: Callable[[], int], again: Callable[[], None]) -> tuple[int, int]:
    """(refused, last errno). A short write is a refusal too: the next byte would have been the error."""
    refused, last = 0, 0
    for _ in range(ATTEMPTS):
        try:
            refused += attempt() < CHUNK
        except OSError as error:
            last = error.errno or 0
            refused += last in refusals.NO_ROOM
        finally:
            again()
    return refused, last


def _in_child(body: Callable[[], tuple[int, int]]) -> dict[str, Any]:
    """In a process of its own, whose name and user may change."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            try:
                refused, last = body()
            except OSError as error:
                last = error.errno or 0
                refused = ATTEMPTS if last in refusals.NO_ROOM else 0
            os.write(writer, _RESULT.pack(ATTEMPTS, refused, last))
        finally:
            os._exit(0)
    os.close(writer)
    try:
        answer = os.read(reader, _RESULT.size)
    finally:
        os.close(reader)
        os.waitpid(pid, 0)
    attempts, refused, last = _RESULT.unpack(answer) if len(answer) == _RESULT.size else (0, 0, 0)
    return {"attempts": attempts, "refused": refused, "errno": last, "error": os.strerror(last) if last else ""}


def uid(user: str) -> int:
    """Raises ValueError."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise ValueError(f"there is no user '{user}' in this guest") from None


def _become(user: str, *, keep_override: bool = False) -> None:
    number = uid(user)
    if number == os.getuid():
        return
    entry = pwd.getpwuid(number)
    os.setgroups(os.getgrouplist(entry.pw_name, entry.pw_gid))
    os.setresgid(entry.pw_gid, entry.pw_gid, entry.pw_gid)
    if keep_override:
        _libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setresuid(number, number, number)
    if keep_override:
        capabilities = struct.pack("=6I", _DAC_OVERRIDE, _DAC_OVERRIDE, 0, 0, 0, 0)
        if _libc.capset(struct.pack("=Ii", _CAPABILITY_VERSION, 0), capabilities) != 0:
            raise OSError(ctypes.get_errno(), "capset")
