"""Take files out of the page cache, so that what is read comes from the disk."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator

from stormcell.guest.tools import mounts

_BLKFLSBUF = 0x1261
_MOST = 20_000


def drop(path: str, node: str | None = None) -> int:
    """Write out what is dirty, then drop the file, or every file below the folder on the same file system, and the
    buffers of the device `node`. Returns the number of files. Pages that a process has mapped stay.
    """
    try:
        mounts.sync(path)
    except OSError:  # the file system has given up: what is dirty is lost, what is clean can be dropped
        pass
    count = 0
    for name in _files(path):
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOATIME | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)
        count += 1
    if node is not None:
        _flush_buffers(node)
    return count


def _files(path: str) -> Iterator[str]:
    about = os.stat(path)
    if not stat.S_ISDIR(about.st_mode):
        yield os.path.realpath(path)
        return
    folders, left = [os.path.realpath(path)], _MOST
    while folders and left > 0:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        for entry in entries:
            try:
                if entry.is_dir(follow_symlinks=False) and entry.stat(follow_symlinks=False).st_dev == about.st_dev:
                    folders.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    left -= 1
                    yield entry.path
            except OSError:
                continue


def _flush_buffers(node: str) -> None:
    fd = os.open(node, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, _BLKFLSBUF)
    except OSError:
        pass
    finally:
        os.close(fd)
