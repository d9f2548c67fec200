"""What the kernel's log says about processes killed for memory."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

PATH = "/dev/kmsg"
_KILL = re.compile(r"oom-kill:constraint=(\w+).*?oom_memcg=([^,]*),.*?task=(.*),pid=(\d+),uid=(\d+)")
_GLOBAL = re.compile(r"oom-kill:constraint=(\w+).*?global_oom,.*?task=(.*),pid=(\d+),uid=(\d+)")


def records(since: int = -1) -> Iterator[tuple[int, str]]:
    """Sequence number and first line of every message after `since` that is still kept."""
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
            number = int(record.split(b",", 2)[1])
            if number > since:
                text = record.partition(b";")[2].partition(b"\n")[0]
                yield number, text.decode(errors="replace")
    finally:
        os.close(fd)


def last() -> int:
    """The number of the newest message, -1 when there is none."""
    newest = -1
    for number, _ in records():
        newest = number
    return newest


def kills_in(folder: str, since: int) -> list[str]:
    """The last messages after `since` that name this cgroup as the one out of memory."""
    group = "oom_memcg=" + folder.removeprefix("/sys/fs/cgroup")
    return [text for _, text in records(since) if f"{group}," in text or f"{group}/" in text][-20:]


def kills(since: int) -> list[dict[str, Any]]:
    """Every victim of the OOM killer after message `since`: where (cgroup path, None for the whole machine) and who."""
    found: list[dict[str, Any]] = []
    for _, text in records(since):
        if "oom-kill:" not in text:
            continue
        if match := _GLOBAL.search(text):
            found.append({"group": None, "comm": match[2], "pid": int(match[3]), "uid": int(match[4])})
        elif match := _KILL.search(text):
            found.append({"group": match[2], "comm": match[3], "pid": int(match[4]), "uid": int(match[5])})
    return found[-50:]
