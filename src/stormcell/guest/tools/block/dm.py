"""Device-mapper devices by ioctl(2): make, read back, swap the table of. As include/uapi/linux/dm-ioctl.h has it."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

CONTROL = "/dev/mapper/control"
SECTOR = 512

_VERSION = (4, 0, 0)
_HEAD = struct.Struct("=3IIIIiIIIQ128s129s7x")
_SPEC = struct.Struct("=QQiI16s")
_CREATE, _REMOVE, _SUSPEND, _STATUS, _LOAD, _CLEAR, _TABLE, _MESSAGE = 3, 4, 6, 7, 9, 10, 12, 14
_F_SUSPEND, _F_TABLE, _F_FULL, _F_NO_FREEZE, _F_DATA = 1 << 1, 1 << 4, 1 << 8, 1 << 10, 1 << 16
_MOST = 1 << 20


class Segment(NamedTuple):
    """A line of a table, in sectors of 512 bytes."""

    start: int
    length: int
    target: str
    args: str


class Answer(NamedTuple):
    """What the kernel said: the device's number, its flags, and the data behind the head."""

    dev: int
    flags: int
    targets: int
    data: bytes


def create(name: str, table: Iterable[Segment]) -> str:
    """A new device with this table, running. Returns its node. Raises OSError; then it is not there."""
    _call(_CREATE, name)
    try:
        load(name, table)
        resume(name)
    except OSError:
        remove(name)
        raise
    return node(name)


def load(name: str, table: Iterable[Segment]) -> None:
    """Put a table beside the running one; `resume` takes it into use. Targets count their time from here."""
    data = b""
    segments = list(table)
    for segment in segments:
        args = segment.args.encode() + b"\0"
        room = -(-len(args) // 8) * 8
        head = (segment.start, segment.length, 0, _SPEC.size + room, segment.target.encode())
        data += _SPEC.pack(*head) + args.ljust(room, b"\0")
    _call(_LOAD, name, data=data, count=len(segments))


def clear(name: str) -> None:
    """Forget the table that was loaded beside the running one."""
    _call(_CLEAR, name)


def swap(name: str) -> None:
    """Take the loaded table into use, between two requests. The file system above is not frozen: it may be broken."""
    _call(_SUSPEND, name, flags=_F_SUSPEND | _F_NO_FREEZE)
    resume(name)


def resume(name: str) -> None:
    """Run, with the table that was loaded last."""
    _call(_SUSPEND, name)


def remove(name: str) -> None:
    """There need not be one. Raises OSError: busy."""
    try:
        _call(_REMOVE, name)
    except OSError as error:
        if error.errno != 6:  # ENXIO: no such device
            raise


def exists(name: str) -> bool:
    """Is there a device of this name?"""
    try:
        _call(_STATUS, name)
    except OSError:
        return False
    return True


def number(name: str) -> int:
    """Its device number. Raises OSError."""
    return _call(_STATUS, name).dev


def node(name: str) -> str:
    """Its node in /dev, made by the kernel (devtmpfs). Raises OSError."""
    return f"/dev/dm-{os.minor(number(name))}"


def path_of(numbers: str) -> str:
    """The node of the block device MAJOR:MINOR. Raises OSError, LookupError."""
    with open(f"/sys/dev/block/{numbers}/uevent", encoding="utf-8") as file:
        for line in file:
            if line.startswith("DEVNAME="):
                return f"/dev/{line[8:].strip()}"
    raise LookupError(f"block device {numbers} has no name")


def table(name: str) -> list[Segment]:
    """The running table, as the kernel writes it back."""
    return list(_segments(_call(_TABLE, name, flags=_F_TABLE)))


def status(name: str) -> list[Segment]:
    """The running table with each target's status in place of its arguments."""
    return list(_segments(_call(_TABLE, name)))


def message(name: str, text: str) -> str:
    """Send a message to the device; its answer."""
    said = _call(_MESSAGE, name, data=struct.pack("=Q", 0) + text.encode() + b"\0")
    return said.data.split(b"\0")[0].decode(errors="replace") if said.flags & _F_DATA else ""


def name_of(dev: int) -> str | None:
    """The name of a device by its number; None when it is no device-mapper device."""
    try:
        with open(f"/sys/dev/block/{os.major(dev)}:{os.minor(dev)}/dm/name", encoding="utf-8") as file:
            return file.read().strip()
    except FileNotFoundError:
        return None


def _segments(answer: Answer) -> Iterator[Segment]:
    at = 0
    for _ in range(answer.targets):
        start, length, _, following, target = _SPEC.unpack_from(answer.data, at)
        args = answer.data[at + _SPEC.size : following].split(b"\0")[0]
        yield Segment(start, length, target.split(b"\0")[0].decode(), args.decode(errors="replace").strip())
        at = following


def _call(command: int, name: str, *, flags: int = 0, data: bytes = b"", count: int = 0) -> Answer:
    size = max(16384, _HEAD.size + len(data))
    fd = os.open(CONTROL, os.O_RDWR | os.O_CLOEXEC)
    try:
        while True:
            head = _HEAD.pack(*_VERSION, size, _HEAD.size, count, 0, flags, 0, 0, 0, name.encode(), b"")
            buffer = bytearray((head + data).ljust(size, b"\0"))
            fcntl.ioctl(fd, 3 << 30 | _HEAD.size << 16 | 0xFD << 8 | command, buffer)
            said = _HEAD.unpack_from(buffer)
            if said[7] & _F_FULL and size < _MOST:
                size *= 4
                continue
            return Answer(_number(said[10]), said[7], said[5], bytes(buffer[said[4] : said[3]]))
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), f"device-mapper {name}") from None
    finally:
        os.close(fd)


def _number(dev: int) -> int:
    """huge_encode_dev of the kernel is the C library's own layout for small numbers."""
    return os.makedev((dev >> 8) & 0xFFF, (dev & 0xFF) | ((dev >> 12) & 0xFFF00))
