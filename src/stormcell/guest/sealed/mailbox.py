"""What the guest and the host of a sealed machine exchange: a stretch of memory that both see.

The guest's kernel leaves it alone (`memmap=SIZE$START`), and /dev/mem shows it; to the host it is memory of the QEMU
process. The host writes only while the guest stands still.

    status   page 0, the guest's     MAGIC, stops, why, written, now_ns; gate and tsc (stop.py)
    order    page 1, the host's      orders, length, passing: what it does where it passes by
    request  from REQUEST on         the host's: `length` bytes of JSON
    answer   from ANSWER on          the guest's: frames, `written` bytes since the last request was taken
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

WORD = "stormcell.mailbox="
"""On the kernel's command line, with the address."""
PAGE = 4096
STATUS, ORDER, REQUEST, ANSWER = 0, PAGE, 2 * PAGE, 16 << 20
SIZE = 80 << 20
WRITTEN, GATE, TSC = 24, 64, 72
"""Places in the status page, of a u64, a u32 and a u64."""
PASSING = ORDER + 16
GO_BY, STAND, STOP = 1, 2, 3
"""Where it passes by: it goes by, or stands still; wherever it stood, `STOP` has QEMU stop the machine behind it."""
MAGIC = b"STORMBOX"

READY, PASS, AWAIT, ENDED = 1, 2, 3, 4
"""Why the guest stands still: it wants a request; it passes by (an event, a beat); a command of it waits for a line;
the request was served. At `PASS` it stands still only if the host asked for that."""

OUTPUT, ERRORS, EXIT = 1, 2, 3
"""Kinds of frames: standard output, standard error, and how the command ended (JSON); the last one of a request."""

_STATUS = struct.Struct("<8sQQQQ")
_ORDER = struct.Struct("<QQQ")
_FRAME = struct.Struct("<BI")
_TSC = struct.Struct("<Q")


@dataclass(frozen=True)
class Status:
    """`now_ns` is the guest's monotonic clock."""

    stops: int
    why: int
    written: int
    now_ns: int

    def pack(self) -> bytes:
        """As it lies in the mailbox."""
        return _STATUS.pack(MAGIC, self.stops, self.why, self.written, self.now_ns)

    @classmethod
    def unpack(cls, data: bytes) -> Status:
        """Raises ValueError when no guest wrote it."""
        magic, *rest = _STATUS.unpack_from(data)
        if magic != MAGIC:
            raise ValueError("the mailbox was not opened by a guest")
        return cls(*rest)


def tsc_of(page: bytes) -> int:
    """The time stamp counter at the guest's last halt, from the status page."""
    (found,) = _TSC.unpack_from(page, TSC)
    return int(found)


@dataclass(frozen=True)
class Order:
    """`orders` counts them."""

    orders: int
    length: int
    passing: int

    def pack(self) -> bytes:
        """As it lies in the mailbox."""
        return _ORDER.pack(self.orders, self.length, self.passing)

    @classmethod
    def unpack(cls, data: bytes) -> Order:
        """The host is trusted."""
        return cls(*_ORDER.unpack_from(data))


def frame(kind: int, data: bytes) -> bytes:
    """One piece of an answer."""
    return _FRAME.pack(kind, len(data)) + data


def frames(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Whole frames at the beginning of `data`; stops at one that is not whole."""
    at = 0
    while at + _FRAME.size <= len(data):
        kind, length = _FRAME.unpack_from(data, at)
        start = at + _FRAME.size
        if start + length > len(data):
            return
        yield kind, data[start : start + length]
        at = start + length


def framed(length: int) -> int:
    """Bytes of a frame of `length` bytes."""
    return _FRAME.size + length


def address() -> int | None:
    """Where the mailbox of this machine is; None when it has none, and is not sealed."""
    with open("/proc/cmdline", encoding="ascii") as file:
        words = file.read().split()
    return next((int(word.removeprefix(WORD), 16) for word in words if word.startswith(WORD)), None)


class Mailbox:
    """The guest's end. `memory` is all of it."""

    def __init__(self, place: int, path: str = "/dev/mem") -> None:
        """Raises OSError."""
        fd = os.open(path, os.O_RDWR | os.O_SYNC | os.O_CLOEXEC)
        try:
            self.memory = mmap.mmap(fd, SIZE, offset=place)
        finally:
            os.close(fd)
        self.written = 0
        try:
            self._stops = Status.unpack(self.memory[:PAGE]).stops  # the machine was booted again
        except ValueError:
            self._stops = 0
        self._orders = self._order().orders

    def tell(self, why: int, now_ns: int) -> None:
        """The next status."""
        self._stops += 1
        data = Status(self._stops, why, self.written, now_ns).pack()
        self.memory[STATUS : STATUS + len(data)] = data

    def _order(self) -> Order:
        return Order.unpack(self.memory[ORDER : ORDER + PAGE])

    def due(self) -> bool:
        """The host gave an order that was not taken."""
        return self._order().orders != self._orders

    def take(self) -> bytes:
        """The request, or the line."""
        order = self._order()
        self._orders = order.orders
        return self.memory[REQUEST : REQUEST + order.length]

    def add(self, data: bytes) -> bool:
        """Append to the answer; False when there is no room for it."""
        start = ANSWER + self.written
        if start + len(data) > SIZE:
            return False
        self.memory[start : start + len(data)] = data
        self.written += len(data)
        return True
