"""The file behind a sealed machine's memory: begun with a disk in it, copied, and named by what it holds."""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stormcell.machine.disk import writing
from stormcell.machine.sealed.layout import Layout

PAGE = 4096
_PIECE = 4 << 20
_EMPTY = bytes(PAGE)


def begin(path: Path, layout: Layout, image: Path) -> None:
    """A new file with the raw disk `image` where the machine's disk is, and nothing else. Raises NoSpace, HostError."""
    with writing("the sealed machine's memory cannot be made", path), _new(path, layout.size) as target:
        _copy(image, target, layout.disk)


def copy(source: Path, path: Path) -> None:
    """A copy that shares no room with the source where the file system cannot. Raises NoSpace, HostError."""
    with writing("the sealed machine's memory cannot be copied", path), _new(path, source.stat().st_size) as target:
        _copy(source, target, 0)


def digest(path: Path) -> str:
    """sha256 (hex) of every page that holds anything, with its number: holes and zeroes are the same."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        for at, length in extents(file.fileno()):
            at, end = at // PAGE * PAGE, at + length
            while at < end:
                piece = os.pread(file.fileno(), min(_PIECE, -(-(end - at) // PAGE) * PAGE), at)
                for start in range(0, len(piece), PAGE):
                    page = piece[start : start + PAGE]
                    if page != _EMPTY:
                        found.update(((at + start) // PAGE).to_bytes(8, "little"))
                        found.update(page)
                at += len(piece)
    return found.hexdigest()


def extents(fd: int) -> Iterator[tuple[int, int]]:
    """Offset and length of each stretch of a sparse file that is not a hole (lseek(2), SEEK_DATA)."""
    at = 0
    while True:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                return
            raise
        end = os.lseek(fd, at, os.SEEK_HOLE)
        yield at, end - at
        at = end


@contextmanager
def _new(path: Path, size: int) -> Iterator[int]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.ftruncate(fd, size)
        yield fd
    finally:
        os.close(fd)


def _copy(source: Path, target: int, place: int) -> None:
    with source.open("rb") as file:
        for at, length in extents(file.fileno()):
            end = at + length
            while at < end:
                at += _piece(file.fileno(), target, at, place, end - at)


def _piece(source: int, target: int, at: int, place: int, length: int) -> int:
    try:
        done = os.copy_file_range(source, target, length, at, place + at)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP):
            raise
        done = os.pwrite(target, os.pread(source, min(_PIECE, length), at), place + at)
    if not done:
        raise OSError(errno.EIO, "the source became shorter")
    return done
