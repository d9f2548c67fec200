"""What the guest and the host of a sealed machine exchange: a stretch of memory that both see.

To the guest it is a block device of persistent memory, written and read past the page cache; to the host it is memory
of the QEMU process. The host writes only while the guest stands still.

    status   block 0, the guest's    MAGIC, stops, why, written, now_ns
    order    block 1, the host's     orders, length, passing
    request  from REQUEST on         the host's: `length` bytes of JSON
    answer   from ANSWER on          the guest's: frames, `written` bytes since the last request was taken
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass

DEVICE = "/dev/pmem1"
BLOCK = 4096
STATUS, ORDER, REQUEST, ANSWER = 0, BLOCK, 2 * BLOCK, 16 << 20
SIZE = 80 << 20
MAGIC = b"STORMBOX"

READY, PASS, AWAIT, ENDED = 1, 2, 3, 4
"""Why the guest stands still: it wants a request; it passes by (an event, a beat); a command of it waits for a line;
the request was served. Only at `PASS` it does not stop unless the host asked for that."""

OUTPUT, ERRORS, EXIT = 1, 2, 3
"""Kinds of frames: standard output, standard error, and how the command ended (JSON); the last one of a request."""

_STATUS = struct.Struct("<8sQQQQ")
_ORDER = struct.Struct("<QQQ")
_FRAME = struct.Struct("<BI")


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


@dataclass(frozen=True)
class Order:
    """`orders` counts them; `passing` is the port that the guest writes to as it passes by."""

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


class Mailbox:
    """The guest's end. Writes whole blocks from memory that is aligned, as O_DIRECT asks for."""

    def __init__(self, path: str = DEVICE) -> None:
        """Raises OSError."""
        self._fd = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC)
        self._block = mmap.mmap(-1, BLOCK)
        self._tail = mmap.mmap(-1, BLOCK)
        self.written = 0
        self.stops = 0

    def tell(self, why: int, now_ns: int) -> None:
        """The next status."""
        self.stops += 1
        self._block[: _STATUS.size] = Status(self.stops, why, self.written, now_ns).pack()
        os.pwritev(self._fd, [self._block], STATUS)

    def order(self) -> Order:
        """What the host wants."""
        os.preadv(self._fd, [self._block], ORDER)
        return Order.unpack(self._block)

    def take(self) -> bytes:
        """The request; a new answer begins."""
        length = self.order().length
        self.written = 0
        if not length:
            return b""
        with mmap.mmap(-1, -(-length // BLOCK) * BLOCK) as room:
            os.preadv(self._fd, [room], REQUEST)
            return room[:length]

    def add(self, data: bytes) -> bool:
        """Append to the answer; False when there is no room for it."""
        if ANSWER + self.written + len(data) > SIZE - BLOCK:
            return False
        at = 0
        while at < len(data):
            place = self.written % BLOCK
            piece = data[at : at + BLOCK - place]
            self._tail[place : place + len(piece)] = piece
            os.pwritev(self._fd, [self._tail], ANSWER + self.written - place)
            self.written += len(piece)
            at += len(piece)
        return True
