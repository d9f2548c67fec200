"""Take memory and keep it: all at once (hold), or more and more (leak)."""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from typing import Any

from stormcell.guest.tools import common, groups, holders, kernellog, targets

CHUNK = 4 << 20
_MAP_LOCKED = 0x2000  # asm-generic/mman.h
_LOOK_S = 0.25
FLAGS = {
    "anon": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE,
    "locked": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE | _MAP_LOCKED,
    "shmem": mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE,
}
"""Pages are taken by the kernel in one call for each piece, which is much faster than one fault a page."""
FIRST_VICTIM = 1000
GROUP_FILES = ("memory.current", "memory.stat", "memory.events", "memory.pressure", "memory.max")


def take(size: int, pages: str, path: str) -> list[mmap.mmap]:
    """So much memory of that kind. Page cache is made of the holes of a file without a name on the disk of `path`."""
    if pages == "file":
        fd = os.open(path, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(fd, size)
            return [mmap.mmap(fd, size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ)]
        finally:
            os.close(fd)
    pieces = [min(CHUNK, size - start) for start in range(0, size, CHUNK)]
    return [mmap.mmap(-1, piece, flags=FLAGS[pages]) for piece in pieces]


def hold(mark: str, by: str, what: str, size: str, pages: str, path: str) -> dict[str, Any]:
    """Take `size` bytes and keep them."""

    def body(wanted: Callable[[], bool], ready: holders.Ready) -> None:
        base = _own_memory()
        held = take(int(size), pages, path)
        ready(base)
        while wanted():
            time.sleep(_LOOK_S)
        del held

    return _start(mark, by, what, "sc-hold", body, [size, pages, path])


def leak(mark: str, by: str, what: str, step: str, every: str, most: str) -> dict[str, Any]:
    """Take `step` bytes more each `every` seconds, up to `most`."""

    def body(wanted: Callable[[], bool], ready: holders.Ready) -> None:
        held: list[mmap.mmap] = []
        began, taken = time.monotonic(), 0
        ready(_own_memory())
        looked = began
        while True:
            due = min(int(most), int((time.monotonic() - began) / float(every)) * int(step))
            if due > taken:
                held += take(due - taken, "anon", "")
                taken = due
            if time.monotonic() - looked > _LOOK_S:
                looked = time.monotonic()
                if not wanted():
                    return
            time.sleep(min(_LOOK_S, float(every) / 2))

    rate = int(step) / float(every) / 1024
    return _start(mark, by, what, f"sc-leak {rate:.6g}", body, [step, every, most])


def stop(mark: str) -> None:
    """End the holder, which gives the memory back. May be said twice."""
    holders.stop(mark)
    common.drop_mark(mark)


def show(mark: str, by: str, what: str) -> dict[str, Any]:
    """The holder, what it held at first and holds now, its group's counters, and who was killed for memory."""
    known = common.get_mark(mark) or {}
    group = known.get("target") or groups.in_place(by, what)
    return {
        "at": time.monotonic(),
        "asked": known.get("asked"),
        "begun": known.get("begun"),
        "holders_in": known.get("holders_in"),
        "started": known.get("holders", []),
        "holders": holders.show(known),
        "target": group,
        "at_act": known.get("files"),
        "files": groups.files(group or known.get("holders_in"), GROUP_FILES),
        "available": available(),
        "available_at_act": known.get("available"),
        "kills": kernellog.kills(known["log"]) if "log" in known else [],
        "targets": known.get("targets", []),
        "now": [process.as_dict() for process in targets.find(by, what)][:64],
    }


def _start(mark: str, by: str, what: str, name: str, body: holders.Body, asked: list[str]) -> dict[str, Any]:
    folder, target = holders.place(by, what, mark, groups.PASSIVE)
    known = {
        "asked": asked,
        "begun": time.monotonic(),
        "target": target,
        "files": groups.files(target, GROUP_FILES),
        "available": available(),
        "log": kernellog.last(),
        "targets": [process.as_dict() for process in targets.find(by, what)],
    }
    began = holders.start(mark, known, folder, [(name, body)], FIRST_VICTIM)
    return {"folder": folder, "holders": began}


def _own_memory() -> dict[str, int]:
    """Bytes of this process by kind, before it takes what it shall."""
    lines = (line.partition(":") for line in (common.read_text("/proc/self/status") or "").splitlines())
    return {key: int(text.split()[0]) << 10 for key, _, text in lines if key in holders.MEMORY}


def available() -> int:
    """Bytes that the whole guest can still use."""
    for line in (common.read_text("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) << 10
    return 0


def main(argv: list[str]) -> int:
    """`hold hold|leak|stop|show`."""
    verbs: dict[str, common.Verb] = {"hold": hold, "leak": leak, "stop": stop, "show": show}
    return common.serve("hold", verbs, argv)
