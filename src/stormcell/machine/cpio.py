"""A cpio archive (format newc) as the kernel unpacks it, byte for byte the same from the same input."""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Entry:
    """A file, or a folder when `mode` says so. Parents come before their children."""

    name: str
    mode: int
    data: bytes = b""

    @classmethod
    def folder(cls, name: str) -> Entry:
        """A folder, mode 0755."""
        return cls(name, stat.S_IFDIR | 0o755)

    @classmethod
    def file(cls, name: str, data: bytes, mode: int = 0o644) -> Entry:
        """A regular file."""
        return cls(name, stat.S_IFREG | mode, data)


def archive(entries: Iterable[Entry]) -> bytes:
    """Owner root, time 0, inode numbers by order (Documentation/driver-api/early-userspace/buffer-format.rst)."""
    parts = [_record(number, entry) for number, entry in enumerate(entries, start=1)]
    parts.append(_record(0, Entry("TRAILER!!!", 0)))
    return b"".join(parts)


def _record(inode: int, entry: Entry) -> bytes:
    name = entry.name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (inode, entry.mode, 0, 0, links, 0, len(entry.data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    return _padded(head) + _padded(entry.data)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
