"""The mount that holds a path, and mount(2) with its flags. As proc(5) has /proc/self/mountinfo."""

from __future__ import annotations

import ctypes
import os
import re
from typing import NamedTuple

from stormcell.guest import kernel

MS_RDONLY, MS_REMOUNT, MS_NOATIME = 1, 32, 1024
_FLAGS = {"nosuid": 2, "nodev": 4, "noexec": 8, "noatime": 1024, "nodiratime": 2048, "relatime": 1 << 21}
_libc = ctypes.CDLL(None, use_errno=True)


class Mount(NamedTuple):
    """A line of mountinfo: the device, where, options of the mount, type, source, options of the file system."""

    dev: int
    point: str
    options: str
    kind: str
    source: str
    shared_options: str

    @property
    def read_only(self) -> bool:
        """The mount or its file system."""
        return "ro" in self.options.split(",") or "ro" in self.shared_options.split(",")

    @property
    def flags(self) -> int:
        """What mount(2) must be told again when it is mounted anew."""
        return sum(_FLAGS.get(word, 0) for word in self.options.split(","))


def every() -> list[Mount]:
    """All of this mount namespace, in order."""
    found = []
    with open("/proc/self/mountinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            left, _, right = line.rstrip("\n").partition(" - ")
            words, rest = left.split(" "), right.split(" ")
            major, _, minor = words[2].partition(":")
            dev = os.makedev(int(major), int(minor))
            found.append(Mount(dev, _plain(words[4]), words[5], rest[0], _plain(rest[1]), rest[2]))
    return found


def of(path: str) -> Mount:
    """The mount that really holds `path`: links are followed. Raises OSError, LookupError."""
    real = os.path.realpath(path, strict=True)
    dev = os.stat(real).st_dev
    found = [m for m in every() if (real + "/").startswith(m.point.rstrip("/") + "/")]
    if not found:
        raise LookupError(f"no mount holds {real}")
    longest = max(len(m.point) for m in found)
    return next((m for m in reversed(found) if len(m.point) == longest and m.dev == dev), found[-1])


def at(point: str) -> Mount | None:
    """What is mounted there last, None when nothing is."""
    return next((m for m in reversed(every()) if m.point == point), None)


def mount(source: str, point: str, kind: str, flags: int = 0, data: str = "") -> None:
    """mount(2). Raises OSError."""
    kernel.mount(source, point, kind, flags, data)


def unmount(point: str) -> None:
    """umount2(2). Raises OSError: busy."""
    if _libc.umount2(point.encode(), 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), point)


def sync(path: str) -> None:
    """syncfs(2): what is dirty of the file system that holds `path` goes to the disk. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.syncfs(fd) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(fd)


def _plain(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
