"""Fill a file system: take its room with one hidden file, or its inodes with many empty ones."""

from __future__ import annotations

import errno
import os
import stat
from typing import Any

from stormcell.guest.tools import claims, common, mounts, refusals
from stormcell.guest.tools.disk import space

FILE = ".stormcell-fill-"
FOLDER = ".stormcell-inodes-"


def blocks(counter: str, path: str, user: str, leave: str) -> dict[str, Any]:
    """Take room until `user` has no more than `leave` (bytes or `5%`), and count from then on who is refused."""
    _claim(counter, path)
    refusals.start(counter)
    refusals.call_me("fill")
    target = space.share(leave, space.room(path)["size"])
    fd = os.open(
        os.path.join(path, FILE + counter), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        size = _take_blocks(fd, path, user, target)
    finally:
        os.close(fd)
    return {"filler": size, **space.room(path)}


def _take_blocks(fd: int, path: str, user: str, target: int) -> int:
    size, step = 0, 1 << 62
    while True:
        told = space.room(path)
        unit = told["unit"]
        surplus = (space.bytes_left_for(user, told) - target) // unit * unit
        if surplus < unit or step < unit:
            return size
        chunk = min(step, surplus)
        try:
            os.posix_fallocate(fd, size, chunk)  # the C library writes where the file system cannot allocate
            size += chunk
        except OSError as error:
            if error.errno not in refusals.NO_ROOM:
                raise
            step = chunk // 2 // unit * unit


def inodes(counter: str, path: str, leave: str) -> dict[str, Any]:
    """Take inodes until no more than `leave` (a number or `5%`) are left, and count from then on who is refused."""
    space.folder(path)
    told = space.room(path)
    if not told["inodes"]:
        raise ValueError(f"the file system of {path} has no fixed number of inodes, so they cannot run out")
    _claim(counter, path)
    refusals.start(counter)
    refusals.call_me("fill")
    target = space.share(leave, told["inodes"])
    place = os.path.join(path, FOLDER + counter)
    os.mkdir(place, 0o700)
    fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    made = 0
    try:
        while (surplus := space.room(path)["inodes_available"] - target) > 0 or target == 0:
            for _ in range(max(1, surplus)):
                os.mknod(f"{made:x}", stat.S_IFREG | 0o600, dir_fd=fd)
                made += 1
    except OSError as error:
        if error.errno not in refusals.NO_ROOM:
            raise
    finally:
        os.close(fd)
    left = space.room(path)
    if left["inodes_available"] > target + 16:
        raise ValueError(f"the disk was full before the inodes were: {left['inodes_available']} of them are left")
    return {"made": made, **left}


def show_blocks(counter: str, path: str, user: str, leave: str) -> dict[str, Any]:
    """Room, filler, what became of some writes as `user`, and who else was refused so far."""
    told = space.room(space.folder(path))
    refused = refusals.counted(counter)
    beyond = space.share(leave, told["size"])
    return {
        **told,
        "on": _held(path),
        "filler": _size(os.path.join(path, FILE + counter)),
        "leave": beyond,
        "probe": space.try_write(path, user, beyond),
        "refused": refused,
    }


def show_inodes(counter: str, path: str, leave: str) -> dict[str, Any]:
    """Inodes, filler, what became of some new files, and who else was refused so far."""
    told = space.room(space.folder(path))
    refused = refusals.counted(counter)
    target = space.share(leave, told["inodes"])
    there = os.path.isdir(os.path.join(path, FOLDER + counter))
    probe = space.try_create(path) if target == 0 else None
    return {**told, "on": _held(path), "filler": there, "leave": target, "probe": probe, "refused": refused}


def _claim(counter: str, path: str) -> None:
    """Room and inodes are one claim: the kernel's count of those who were refused could not tell them apart."""
    told = space.room(space.folder(path))
    held = mounts.of(path)
    if not told["size"]:
        raise ValueError(f"{path} is on {held.source} ({held.kind}), which is no file system with space to fill")
    claims.take(counter, [f"room {held.dev}"], f"the file system that holds {path} ({held.point})", "filled")


def _held(path: str) -> dict[str, str]:
    """The file system that really holds the folder."""
    held = mounts.of(path)
    return {"source": held.source, "kind": held.kind, "mount": held.point}


def clear(counter: str, path: str) -> None:
    """Remove whatever filler is there, and stop counting."""
    refusals.stop(counter)
    claims.drop(counter)
    try:
        os.unlink(os.path.join(path, FILE + counter))
    except FileNotFoundError:
        pass
    place = os.path.join(path, FOLDER + counter)
    if os.path.isdir(place):
        with os.scandir(place) as entries:  # by inode: that walks the inode tables once
            names = [entry.name for entry in sorted(entries, key=lambda entry: entry.inode())]
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in names:
                os.unlink(name, dir_fd=fd)
        finally:
            os.close(fd)
        os.rmdir(place)


def _size(path: str) -> int | None:
    try:
        return os.lstat(path).st_blocks * 512
    except OSError as error:
        if error.errno != errno.ENOENT:
            raise
        return None


def main(argv: list[str]) -> int:
    """`fill blocks|inodes|show-blocks|show-inodes|clear`."""
    verbs: dict[str, common.Verb] = {
        "blocks": blocks,
        "inodes": inodes,
        "show-blocks": show_blocks,
        "show-inodes": show_inodes,
        "clear": clear,
    }
    return common.serve("fill", verbs, argv)
