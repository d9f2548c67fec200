"""The threads whose order is disturbed: services, loads, and whatever a setup left running; nothing of ours.

Tools and custom commands that the runner starts are no workload, though they run in groups like those of a setup's.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from stormcell.guest.tools import processes

_STAT = 512


@dataclass(frozen=True)
class Thread:
    """`fd` is its stat file, held open: it tells of that very thread, and of no other that gets its number."""

    tid: int
    fd: int

    def runnable(self) -> bool | None:
        """On the processor, or waiting for it; None when the thread is gone."""
        try:
            text = os.pread(self.fd, _STAT, 0)
        except OSError:
            return None
        return text[text.rindex(b")") + 2 : text.rindex(b")") + 3] == b"R"


class Workload:
    """Use `look` from time to time, and `close` at the end."""

    def __init__(self) -> None:
        self.threads: dict[int, Thread] = {}
        self._ours: set[tuple[int, int]] = set()
        self._runners = processes.ancestors() - {1}

    def look(self) -> list[Thread]:
        """Who came since the last look. Who is gone is forgotten."""
        found: dict[int, Thread] = {}
        new = []
        for process in processes.everyone():
            if (process.pid, process.start_time) in self._ours:
                continue
            if not self._works(process):
                self._ours.add((process.pid, process.start_time))
                continue
            for tid in _tids(process.pid):
                thread = self.threads.get(tid)
                if thread is None or thread.runnable() is None:
                    thread = _opened(process.pid, tid)
                    if thread is None:
                        continue
                    new.append(thread)
                found[tid] = thread
        for tid, thread in self.threads.items():
            if found.get(tid) is not thread:
                os.close(thread.fd)
        self.threads = found
        return new

    def close(self) -> None:
        """Let go of everybody."""
        for thread in self.threads.values():
            os.close(thread.fd)
        self.threads = {}

    def _works(self, process: processes.Process) -> bool:
        if process.pid == 1 or processes.is_ours(process):
            return False
        return processes.is_load(process) or process.parent not in self._runners


def _tids(pid: int) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []


def _opened(pid: int, tid: int) -> Thread | None:
    try:
        return Thread(tid, os.open(f"/proc/{pid}/task/{tid}/stat", os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return None
