"""The time zone of the machine: /etc/localtime and /etc/timezone, moved aside and put back as they were."""

from __future__ import annotations

import os
import time
from typing import Any

from stormcell.guest.tools import common

ZONES = "/usr/share/zoneinfo"
FILES = ("/etc/localtime", "/etc/timezone")


def show(mark: str, zone: str) -> dict[str, Any]:
    """The time of day as a new process sees it, and as it is in `zone`; and whether our files are in place."""
    return {
        "seen": _local(None),
        "wanted": _local(zone) if os.path.isfile(f"{ZONES}/{zone}") else None,
        "localtime": os.readlink(FILES[0]) if os.path.islink(FILES[0]) else None,
        "timezone": (common.read_text(FILES[1]) or "").strip(),
        "ours": common.get_mark(_mark(mark)) is not None,
    }


def _local(zone: str | None) -> dict[str, Any]:
    os.environ.pop("TZ", None)
    if zone is not None:
        os.environ["TZ"] = f":{zone}"
    time.tzset()
    now = time.localtime()
    return {"name": now.tm_zone, "offset_s": now.tm_gmtoff}


def put(mark: str, zone: str) -> dict[str, Any]:
    """Raises ValueError for a zone that this guest does not have; nothing was done then."""
    target = f"{ZONES}/{zone}"
    if not os.path.isfile(target):
        raise ValueError(f"there is no time zone '{zone}' in this guest ({target})")
    left = [path for path in FILES if os.path.lexists(_aside(path, mark))]
    if left:
        raise ValueError(f"{_aside(left[0], mark)} is in the way: a fault of this name was not undone")
    common.put_mark(_mark(mark), {"zone": zone, "were": [path for path in FILES if os.path.lexists(path)]})
    for path in FILES:
        if os.path.lexists(path):
            os.link(path, _aside(path, mark), follow_symlinks=False)
    os.symlink(target, f"{FILES[0]}.{mark}.new")
    os.rename(f"{FILES[0]}.{mark}.new", FILES[0])
    with open(f"{FILES[1]}.{mark}.new", "w", encoding="utf-8") as file:
        file.write(f"{zone}\n")
    os.rename(f"{FILES[1]}.{mark}.new", FILES[1])
    return show(mark, zone)


def put_back(mark: str) -> None:
    """What was there is there again, the very same files; harmless a second time."""
    known = common.get_mark(_mark(mark))
    for path in FILES if known is not None else ():
        if os.path.lexists(f"{path}.{mark}.new"):
            os.unlink(f"{path}.{mark}.new")
        if os.path.lexists(_aside(path, mark)):
            # rename(2) of one name of a file over another name of the same file does nothing, and leaves both
            os.rename(_aside(path, mark), path)
            if os.path.lexists(_aside(path, mark)):
                os.unlink(_aside(path, mark))
        elif path not in known["were"] and os.path.lexists(path):
            os.unlink(path)
    common.drop_mark(_mark(mark))


def _aside(path: str, mark: str) -> str:
    return f"{path}.stormcell-{mark}"


def _mark(mark: str) -> str:
    return f"zone-{mark}"


def main(argv: list[str]) -> int:
    """`zone show|put|put-back`."""
    return common.serve("zone", {"show": show, "put": put, "put-back": put_back}, argv)
