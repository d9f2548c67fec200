"""What the kernel's log says about processes killed for memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

PATH = "/dev/kmsg"
_KILL = re.compile(r"oom-kill:constraint=(\w+).*?oom_memcg=([^,]*),.*?task=(.*),pid=(\d+),uid=(\d+)")
_GLOBAL = re.compile(r"oom-kill:constraint=(\w+).*?global_oom,.*?task=(.*),pid=(\d+),uid=(\d+)")


def records() -> Iterator[tuple[int, str]]:
    """Sequence number and first line of every message that is still kept."""
    try:
        fd = os.open(PATH, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    try:
        while True:
            try:
                record = os.read(fd, 8192)  # one message a read (Documentation/ABI/testing/dev-kmsg)
            except BrokenPipeError:  # it was overwritten while we looked; the next read goes on
                continue
            except BlockingIOError:
                return
            head, _, text = record.decode(errors="replace").partition(";")
            yield int(head.split(",")[1]), text.splitlines()[0] if text else ""
    finally:
        os.close(fd)


def last() -> int:
    """The number of the newest message, -1 when there is none."""
    newest = -1
    for number, _ in records():
        newest = number
    return newest


def kills_in(folder: str, since: int | None = None) -> list[str]:
    """The last messages that name this cgroup as the one out of memory; after message `since` when it is given."""
    group = "oom_memcg=" + folder.removeprefix("/sys/fs/cgroup")
    found = [t for n, t in records() if n > (-1 if since is None else since) and (f"{group}," in t or f"{group}/" in t)]
    return found[-20:]


def kills(since: int) -> list[dict[str, Any]]:
    """Every victim of the OOM killer after message `since`: where (cgroup path, None for the whole machine) and who."""
    found: list[dict[str, Any]] = []
    for number, text in records():
        if number <= since or "oom-kill:" not in text:
            continue
        if match := _GLOBAL.search(text):
            found.append({"group": None, "comm": match[2], "pid": int(match[3]), "uid": int(match[4])})
        elif match := _KILL.search(text):
            found.append({"group": match[2], "comm": match[3], "pid": int(match[4]), "uid": int(match[5])})
    return found[-50:]
