"""Files of a folder: one that somebody else may have put there is read with care (a pipe or a device in its place is
refused, not waited for), and one that could not be written whole is not left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path

LARGEST = 256 << 20
"""Bytes: far more than a run of days writes."""


def read_regular(path: Path, limit: int = LARGEST) -> bytes:
    """The bytes of a regular file. Raises OSError: EINVAL for what is none, EFBIG for more than `limit` bytes."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        about = os.fstat(fd)
        if stat.S_ISDIR(about.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if about.st_size > limit:
            raise OSError(errno.EFBIG, f"it has more than {limit >> 20} MiB", str(path))
        return file.read(limit)


@contextlib.contextmanager
def unfinished(aside: Path) -> Iterator[None]:
    """To write `aside` in, and to give it its name: it is removed when that comes to nothing."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            aside.unlink()
        raise
