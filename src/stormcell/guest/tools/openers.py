"""Who has something open below a path, as /proc tells."""

from __future__ import annotations

import os

from stormcell.guest.tools import processes

_PLACES = ("cwd", "root", "exe")
_MOST = 8
_WRITES = os.O_WRONLY | os.O_RDWR


def below(path: str, *, writing: bool = False) -> list[str]:
    """`command[pid] (what)` of each process that has something open at or below `path`; `writing`: open to write."""
    return [f"{process.comm}[{process.pid}] ({what})" for process in processes.everyone()
            if (what := _holds(process.pid, path, writing)) is not None]  # fmt: skip


def sentence(found: list[str]) -> str:
    """The first few, for an error."""
    rest = f" and {len(found) - _MOST} more" if len(found) > _MOST else ""
    return ", ".join(found[:_MOST]) + rest


def _holds(pid: int, path: str, writing: bool) -> str | None:
    folder = path.rstrip("/") + "/"
    try:
        if not writing:
            for place in _PLACES:
                if (os.readlink(f"/proc/{pid}/{place}") + "/").startswith(folder):
                    return place
        for name in os.listdir(f"/proc/{pid}/fd"):
            link = os.readlink(f"/proc/{pid}/fd/{name}")
            if (link + "/").startswith(folder) and (not writing or _writes(pid, name)):
                return link
    except OSError:  # it ended meanwhile
        pass
    return None


def _writes(pid: int, fd: str) -> bool:
    with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as file:
        flags = next(line.split()[1] for line in file if line.startswith("flags:"))
    return bool(int(flags, 8) & _WRITES)
