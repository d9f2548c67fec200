"""Where a file lies on its device, in sectors, and shares of it. As include/uapi/linux/fiemap.h has it."""

from __future__ import annotations

import fcntl
import os
import struct

_FIEMAP = 0xC020660B
_HEAD = struct.Struct("=QQIIII")
_EXTENT = struct.Struct("=QQQQQIIII")
_SYNC, _LAST, _NOT_ON_DISK = 1, 1, 0x2 | 0x4 | 0x200
_BATCH = 64
_MOST = 4096
SECTOR = 512
BLOCK = 8
"""Sectors in a block of 4 KiB, the least that is made bad."""
_STRIPES = 128

Range = tuple[int, int]
"""Start and length."""


def of_file(path: str) -> list[Range]:
    """The sectors of the file's content, what touches joined. Raises OSError, ValueError when there are none."""
    found: list[Range] = []
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        at, last = 0, False
        while not last:
            buffer = bytearray(_HEAD.size + _BATCH * _EXTENT.size)
            _HEAD.pack_into(buffer, 0, at, (1 << 64) - 1 - at, _SYNC, 0, _BATCH, 0)
            fcntl.ioctl(fd, _FIEMAP, buffer)
            mapped = _HEAD.unpack_from(buffer)[3]
            if not mapped:
                break
            for number in range(mapped):
                logical, physical, length, _, _, flags, *_ = _EXTENT.unpack_from(
                    buffer, _HEAD.size + number * _EXTENT.size
                )
                at, last = logical + length, bool(flags & _LAST)
                if not flags & _NOT_ON_DISK:
                    found.append((physical // SECTOR, length // SECTOR))
            if len(found) > _MOST:
                raise ValueError(f"{path} lies in more than {_MOST} pieces")
    finally:
        os.close(fd)
    if not found:
        raise ValueError(f"{path} has no blocks on the disk")
    return joined(found)


def joined(ranges: list[Range]) -> list[Range]:
    """In order, without gaps of nothing between."""
    found: list[Range] = []
    for start, length in sorted(ranges):
        if found and found[-1][0] + found[-1][1] == start:
            found[-1] = (found[-1][0], found[-1][1] + length)
        else:
            found.append((start, length))
    return found


def share(ranges: list[Range], percent: float) -> list[Range]:
    """So many per cent of these sectors in whole blocks of 4 KiB, spread evenly: the first part of each stripe."""
    if percent >= 100:
        return ranges
    whole = sum(length for _, length in ranges) // BLOCK
    wanted = max(1, round(whole * percent / 100))
    stripes = min(_STRIPES, wanted)
    found: list[Range] = []
    for n in range(stripes):
        first, following = whole * n // stripes, whole * (n + 1) // stripes
        count = wanted * following // whole - wanted * first // whole
        found += _slice(ranges, first * BLOCK, count * BLOCK)
    return joined(found)


def _slice(ranges: list[Range], skip: int, count: int) -> list[Range]:
    """`count` sectors behind the first `skip`."""
    found: list[Range] = []
    for start, length in ranges:
        if skip < length and count > 0:
            part = min(length - skip, count)
            found.append((start + skip, part))
            count -= part
        skip = max(0, skip - length)
    return found
