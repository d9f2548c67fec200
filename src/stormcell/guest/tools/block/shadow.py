"""A copy of some sectors of a disk in which one byte of each block is wrong, as a loop device."""

from __future__ import annotations

import mmap
import os
import re

from stormcell.guest.tools.block import loops
from stormcell.guest.tools.block.extents import BLOCK, SECTOR, Range

PATTERN = re.compile(r"@shadow:(\d+):(\d+|inverted)")
MOST = 128 << 20
_STEP = 1 << 20


def make(path: str, disk: str, offset: int, ranges: list[Range], byte: int, value: str) -> None:
    """Copy the sectors `ranges` of `disk` (which begins at sector `offset` there), one behind the other, to `path`.

    Byte number `byte` (from 1) of each 4 KiB gets `value`, or is inverted. Raises OSError, ValueError.
    """
    size = sum(length for _, length in ranges) * SECTOR
    if size > MOST:
        raise ValueError(
            f"{size >> 20} MiB would have to be copied; name a file, or a smaller share (at most {MOST >> 20} MiB)"
        )
    source = os.open(disk, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
    target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with mmap.mmap(-1, _STEP) as buffer:  # direct I/O wants whole pages
            for start, length in ranges:
                for at in range(0, length * SECTOR, _STEP):
                    part = min(_STEP, length * SECTOR - at)
                    got = os.preadv(source, [memoryview(buffer)[:part]], (offset + start) * SECTOR + at)
                    _spoil(buffer, got, byte - 1, value)
                    os.write(target, buffer[:got])
        os.fsync(target)
    finally:
        os.close(source)
        os.close(target)
    loops.attach(path)


def _spoil(buffer: mmap.mmap, size: int, byte: int, value: str) -> None:
    for at in range(byte, size, BLOCK * SECTOR):
        buffer[at] = buffer[at] ^ 0xFF if value == "inverted" else int(value)


def number(path: str) -> str | None:
    """MAJOR:MINOR of the loop device, None when there is none."""
    node = loops.over(path) if os.path.exists(path) else None
    if node is None:
        return None
    dev = os.stat(node).st_rdev
    return f"{os.major(dev)}:{os.minor(dev)}"


def remove(path: str) -> None:
    """There need not be one."""
    if os.path.exists(path):
        if (node := loops.over(path)) is not None:
            loops.detach(node)
        os.unlink(path)
