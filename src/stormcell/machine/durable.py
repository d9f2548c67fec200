"""Files that are there whole or not at all, also after a crash at any moment."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from stormcell.spec.errors import NoSpace
from stormcell.spec.files import unfinished


def fsync_path(path: Path) -> None:
    """Make a file's contents, or a folder's names, durable."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def fsync_tree(folder: Path) -> None:
    """Every file and folder below, then the folder itself."""
    for path in folder.rglob("*"):
        if not path.is_symlink() and (path.is_file() or path.is_dir()):
            fsync_path(path)
    fsync_path(folder)


def write_atomically(path: Path, text: str | bytes, *, sync: bool = True) -> None:
    """Replace a small private file: write beside it, fsync, rename, fsync the folder.

    Without `sync` it outlives this process at any moment, but not a power cut of the host.
    """
    new = path.with_name(f".{path.name}.{os.getpid()}")
    with unfinished(new):
        fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(text.encode() if isinstance(text, str) else text)
            file.flush()
            if sync:
                os.fsync(fd)
        new.rename(path)
    if sync:
        fsync_path(path.parent)


def publish(new: Path, final: Path) -> None:
    """Give a finished folder its name: fsync all of it, rename, fsync the parent."""
    fsync_tree(new)
    new.rename(final)
    fsync_path(final.parent)


@contextmanager
def lock(path: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold an exclusive flock on `path` (made when missing). Without `wait`, yields False when another holds it.

    Whoever holds it may remove it: the next one takes a new file, also one who had opened the old one already.
    """
    fd = _locked(path, wait)
    if fd is None:
        yield False
        return
    try:
        yield True
    finally:
        os.close(fd)


def _locked(path: Path, wait: bool) -> int | None:
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(fd), path.stat()):
                    return fd
        except BlockingIOError:
            os.close(fd)
            return None
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)


@asynccontextmanager
async def awaited_lock(path: Path, waiting: Callable[[], None]) -> AsyncIterator[None]:
    """`lock` for coroutines: asks again until it is free, for a thread that hangs in flock outlives a Ctrl-C.

    `waiting` is called once when another holds it.
    """
    told = False
    while True:
        with lock(path, wait=False) as mine:
            if mine:
                yield
                return
        if not told:
            waiting()
            told = True
        await asyncio.sleep(0.2)


@contextmanager
def aside(path: Path) -> Iterator[Path]:
    """An empty private folder to build in, removed afterwards. Call with the lock held: a half-built one is emptied."""
    remove_tree(path)
    path.mkdir(mode=0o700)
    try:
        yield path
    finally:
        remove_tree(path)


def remove_tree(path: Path) -> None:
    """Remove a folder if it is there, also when parts of it belong to the user's subordinate ids."""
    if path.exists():
        shutil.rmtree(path)


def check_room(folder: Path, wanted: int) -> None:
    """Raise NoSpace when less than `wanted` bytes are free where `folder` is."""
    free = shutil.disk_usage(folder).free
    if free < wanted:
        raise NoSpace(
            f"{free / 2**30:.1f} GiB are free, {wanted / 2**30:.1f} GiB are needed",
            where=str(folder),
            remedy="make room, or set STORMCELL_HOME (TMPDIR for what is unpacked) to a folder on a larger disk",
        )
