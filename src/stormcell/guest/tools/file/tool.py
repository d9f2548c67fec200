"""Take a file's permissions, its name or its content away, and give them back: the same inode, owner and mode."""

from __future__ import annotations

import ctypes
import os
import shutil
import stat
import zlib
from typing import Any

from stormcell.guest.tools import common, mounts, refusals
from stormcell.guest.tools.file import pathcounts

AWAY = ".stormcell-away-"
"""The folder, at the top of the same file system, in which what was taken away is kept."""
_EXCHANGE, _AT_FDCWD = 2, -100
_DIGEST_MOST = 16 << 20
_libc = ctypes.CDLL(None, use_errno=True)


def mode(mark: str, path: str, wanted: str) -> dict[str, Any]:
    """Give the path another mode (octal), and count who is refused."""
    real = os.path.realpath(path, strict=True)
    note = _note(mark, "mode", real)
    pathcounts.start(mark, path, real)
    os.chmod(real, int(wanted, 8))
    return note


def remove(mark: str, path: str, _: str = "") -> dict[str, Any]:
    """Take the path out of its folder, as it is, and count who does not find it."""
    real = _named(path)
    if os.path.ismount(real):
        raise ValueError(f"{path} is a mount; it cannot be removed")
    note = _note(mark, "remove", real)
    place = _away(mark, real)
    common.put_mark(mark, {**note, "away": place})
    pathcounts.start(mark, path, real)
    os.mkdir(os.path.dirname(place), 0o700)
    os.rename(real, place)
    return note


def truncate(mark: str, path: str, size: str) -> dict[str, Any]:
    """Cut the file to so many bytes; a copy is kept. Count who opens it."""
    real = os.path.realpath(path, strict=True)
    note = _note(mark, "truncate", real)
    if not stat.S_ISREG(os.stat(real).st_mode):
        raise ValueError(f"{path} is no file")
    if note["size"] <= int(size):
        raise ValueError(f"{path} has {note['size']} bytes, so cutting it to {size} would do nothing")
    place = _away(mark, real)
    common.put_mark(mark, {**note, "away": place})
    os.mkdir(os.path.dirname(place), 0o700)
    shutil.copyfile(real, f"{place}.part")
    os.rename(f"{place}.part", place)
    pathcounts.start(mark, path, real, works=True)
    os.truncate(real, int(size))
    common.put_mark(mark, {**note, "away": place, "cut": os.stat(real).st_mtime_ns})
    return note


def undo(mark: str, made_anew: str) -> dict[str, Any] | None:
    """Put it back. What the target made in its place meanwhile is replaced (`restore`), or kept (`keep`)."""
    note = common.get_mark(mark)
    if note is None:
        return None
    {"mode": _mode_back, "remove": _name_back, "truncate": _content_back}[note["what"]](note, made_anew == "keep")
    if note.get("away"):
        shutil.rmtree(os.path.dirname(note["away"]), ignore_errors=True)
    pathcounts.stop(mark)
    common.drop_mark(mark)
    return {"path": note["path"]}


def show(mark: str, path: str) -> dict[str, Any]:
    """The path as it is now, and what became of calls that named it."""
    refusals.call_me("show")
    note = common.get_mark(mark)
    counts = pathcounts.read(mark)
    away = note.get("away") if note else None
    return {
        "now": _about(note["path"] if note else _named(path)),
        "counts": counts,
        "away": os.path.lexists(away) if away else False,
        "act": note,
    }


def _named(path: str) -> str:
    """The name itself, with its folder's links followed."""
    return os.path.join(os.path.realpath(os.path.dirname(path), strict=True), os.path.basename(path))


def _note(mark: str, what: str, real: str) -> dict[str, Any]:
    about = _about(real)
    if about is None:
        raise FileNotFoundError(2, "No such file or directory", real)
    refusals.call_me("file")
    note = {"what": what, "path": real, **about}
    common.put_mark(mark, note)
    return note


def _about(real: str) -> dict[str, Any] | None:
    try:
        about = os.lstat(real)
    except (FileNotFoundError, NotADirectoryError):
        return None
    found: dict[str, Any] = {
        "inode": about.st_ino,
        "mode": f"{stat.S_IMODE(about.st_mode):04o}",
        "owner": [about.st_uid, about.st_gid],
        "size": about.st_size,
        "digest": None,
    }
    if stat.S_ISREG(about.st_mode) and about.st_size <= _DIGEST_MOST:
        with open(real, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOATIME)) as file:
            found["digest"] = zlib.crc32(file.read())
    return found


def _away(mark: str, real: str) -> str:
    """On the same mount, so that a rename is all it takes, and not where the target lists its files."""
    top = mounts.of(os.path.dirname(real)).point
    return os.path.join(top, f"{AWAY}{mark}", os.path.basename(real))


def _mode_back(note: dict[str, Any], keep: bool) -> None:
    now = _about(note["path"])
    if now is not None and now["inode"] == note["inode"] and not (keep and now["mode"] == note["mode"]):
        os.chmod(note["path"], int(note["mode"], 8))


def _name_back(note: dict[str, Any], keep: bool) -> None:
    real, away = note["path"], note.get("away")
    if away is None or not os.path.lexists(away) or (keep and os.path.lexists(real)):
        return
    os.makedirs(os.path.dirname(real), exist_ok=True)
    if not os.path.lexists(real):
        os.rename(away, real)
    elif _libc.renameat2(_AT_FDCWD, away.encode(), _AT_FDCWD, real.encode(), _EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), real)


def _content_back(note: dict[str, Any], keep: bool) -> None:
    real, away = note["path"], note.get("away")
    if away is None or not os.path.exists(away) or not os.path.exists(real):
        return
    about = os.stat(real)
    if about.st_ino != note["inode"] or (keep and about.st_mtime_ns != note.get("cut", about.st_mtime_ns)):
        return
    with open(away, "rb") as kept, open(real, "r+b") as file:
        shutil.copyfileobj(kept, file, 1 << 20)
        file.truncate()
        os.fsync(file.fileno())


def main(argv: list[str]) -> int:
    """`file mode|remove|truncate|undo|show`."""
    verbs: dict[str, common.Verb] = {
        "mode": mode,
        "remove": remove,
        "truncate": truncate,
        "undo": undo,
        "show": show,
    }
    return common.serve("file", verbs, argv)
