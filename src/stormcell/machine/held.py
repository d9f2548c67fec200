"""Folders that a living process holds: whoever finds one can tell whether it was left behind."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NAME = "held"
"""In the folder: locked (flock) by whoever holds it; it ends with that process, whatever ends the process."""
MAKING = ".new-"
"""A folder has this before its name until it is held."""
MAKING_S = 60.0


@contextmanager
def held(below: Path, prefix: str, note: str = "") -> Iterator[Path]:
    """A new folder below `below`, removed at the end; `note` is for whoever finds it."""
    new = Path(tempfile.mkdtemp(prefix=f"{MAKING}{prefix}", dir=below))
    path = below / new.name.removeprefix(MAKING)
    lock = -1
    try:
        lock = os.open(new / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.write(lock, note.encode())
        new.rename(path)
        yield path
    finally:
        shutil.rmtree(new, ignore_errors=True)
        shutil.rmtree(path, ignore_errors=True)
        if lock >= 0:
            os.close(lock)


def note_of(path: Path) -> str:
    """What its holder wrote; nothing when it is gone."""
    try:
        return (path / NAME).read_text()
    except (OSError, ValueError):
        return ""


def left(path: Path) -> bool:
    """Whether its holder is dead. One that is just being made is not left."""
    try:
        lock = os.open(path / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return _age(path) > MAKING_S
    except OSError:
        return False
    try:
        if path.name.startswith(MAKING) and _age(path) <= MAKING_S:
            return False
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
