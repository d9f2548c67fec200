"""Set a limit of a cgroup and show its files. `set` first remembers the counters, so that the act itself is counted."""

from __future__ import annotations

import os
from typing import Any

from stormcell.guest.tools import common

KERNEL_LOG = "/dev/kmsg"


def set_limit(mark: str, file: str, value: str, counters: str) -> dict[str, Any]:
    """Write `value` to `file`. The text of `counters` (in the same folder) is kept as it was before."""
    folder = os.path.dirname(file)
    if not os.path.isdir(folder):
        raise ValueError(f"there is no cgroup {folder}")
    common.put_mark(mark, common.read_text(os.path.join(folder, counters)))
    _write(file, value)
    return {"file": file, "value": (common.read_text(file) or "").strip()}


def restore(mark: str, file: str, value: str) -> None:
    """Put the value back and forget the mark."""
    _write(file, value)
    common.drop_mark(mark)


def show(mark: str, folder: str, *names: str) -> dict[str, Any]:
    """The files of the cgroup by name (None when one is not there), the counters before the act, and its OOM kills."""
    files = {name: common.read_text(os.path.join(folder, name)) for name in names}
    return {"files": files, "at_act": common.get_mark(mark), "oom": _oom_lines(folder)}


def _write(file: str, value: str) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.strip().encode())
    finally:
        os.close(fd)


def _oom_lines(folder: str) -> list[str]:
    """The last kernel messages that name this cgroup as the one out of memory."""
    group = "oom_memcg=" + folder.removeprefix("/sys/fs/cgroup")
    found: list[str] = []
    try:
        fd = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return found
    try:
        while True:
            try:
                record = os.read(fd, 8192)  # one message a read (Documentation/ABI/testing/dev-kmsg)
            except BrokenPipeError:  # it was overwritten while we looked; the next read goes on
                continue
            except BlockingIOError:
                return found[-20:]
            text = record.decode(errors="replace")
            if f"{group}," in text or f"{group}/" in text:
                found.append(text.partition(";")[2].splitlines()[0])
    finally:
        os.close(fd)


def main(argv: list[str]) -> int:
    """`cgroup set|restore|show`."""
    return common.serve("cgroup", {"set": set_limit, "restore": restore, "show": show}, argv)
