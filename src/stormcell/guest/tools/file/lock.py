"""A process of ours holds a lock on a file, as one that hangs would; the kernel counts who meets it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from typing import Any

from stormcell.guest.tools import common, counters, groups, holders

EVENTS = {"flock": "filelock/flock_lock_inode", "fcntl": "filelock/posix_lock_inode"}
_REFUSED = 11
_WAITING = 1
"""FILE_LOCK_DEFERRED: the kernel put the request into the queue of the lock."""
_LOOK_S = 0.2


def hold(mark: str, path: str, kind: str, shared: str) -> dict[str, Any]:
    """Take the lock, or fail if somebody has it. `shared`: others may read-lock it too."""
    real = os.path.realpath(path, strict=True)
    about = os.stat(real)
    dev = os.major(about.st_dev) << 20 | os.minor(about.st_dev)

    def body(wanted: Callable[[], bool], ready: holders.Ready) -> None:
        flags = os.O_RDONLY if shared == "shared" or kind == "flock" else os.O_RDWR
        fd = os.open(real, flags | os.O_CLOEXEC)
        how = fcntl.LOCK_SH if shared == "shared" else fcntl.LOCK_EX
        (fcntl.flock if kind == "flock" else fcntl.lockf)(fd, how | fcntl.LOCK_NB)
        ready({"inode": about.st_ino})
        while wanted():
            time.sleep(_LOOK_S)

    known = {"path": path, "real": real, "inode": about.st_ino, "dev": dev, "kind": kind, "shared": shared}
    common.put_mark(mark, known)
    condition = f"i_ino == {about.st_ino} && s_dev == {dev} && (ret == -{_REFUSED} || ret == {_WAITING})"
    holders.start(mark, known, f"{groups.PASSIVE}/{mark}", [("sc-lock", body)], None)
    counters.start(mark, EVENTS[kind], "common_pid.execname,ret", condition)
    return known


def release(mark: str) -> None:
    """End the holder; whoever waits goes on. May be said twice."""
    holders.stop(mark)
    counters.stop(mark, EVENTS.values())
    common.drop_mark(mark)


def show(mark: str, path: str) -> dict[str, Any]:
    """Who holds the file's locks and who waits for them (/proc/locks), and who met ours."""
    note = common.get_mark(mark)
    real = note["real"] if note else os.path.realpath(path, strict=True)
    about = os.stat(real)
    entries = counters.read(mark, EVENTS[note["kind"]]) if note and "kind" in note else None
    met = None
    if entries is not None:
        met = [
            {
                "process": entry.get("process"),
                "count": int(entry["hitcount"]),
                "result": "waits" if entry.get("ret") == str(_WAITING) else "EAGAIN",
            }
            for entry in entries
        ]
    return {
        "inode": about.st_ino,
        "locks": _locks(about),
        "holders": holders.show(note) if note else [],
        "met": met,
        "act": note,
    }


def _locks(about: os.stat_result) -> list[dict[str, Any]]:
    """Of the file, from /proc/locks: `1: -> FLOCK ADVISORY WRITE 12 fe:00:34 0 EOF` waits for that above (proc(5))."""
    place = f"{os.major(about.st_dev):02x}:{os.minor(about.st_dev):02x}:{about.st_ino}"
    found = []
    for line in (common.read_text("/proc/locks") or "").splitlines():
        words = line.split()[1:]
        waits = words[:1] == ["->"]
        words = words[waits:]
        if len(words) >= 5 and words[4] == place:
            found.append({"kind": words[0].lower(), "mode": words[2].lower(), "pid": int(words[3]), "waits": waits})
    return found


def main(argv: list[str]) -> int:
    """`lock hold|release|show`."""
    return common.serve("lock", {"hold": hold, "release": release, "show": show}, argv)
