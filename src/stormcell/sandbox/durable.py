"""Small files that are whole or not there, also after a crash of the host."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, data: bytes, *, sync: bool = True) -> None:
    """Replace `path` by rename. With `sync` the bytes and the name are on the disk when this returns.

    Without, a killed process still leaves the old or the new file; only a crash of the host may lose both.
    """
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        try:
            os.write(fd, data)
            if sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        aside.rename(path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
    if sync:
        sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Put the names in a folder on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def append_line(path: Path, line: str) -> None:
    """Add one line in one write: two processes at once do not mix theirs."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, line.encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)
