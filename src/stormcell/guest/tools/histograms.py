"""Counting in the kernel: a histogram on a tracepoint, in an instance of the tracer that is ours.

Nothing is recorded per event, and a process that dies is still counted (Documentation/trace/histogram.rst).
"""

from __future__ import annotations

import os
import re

from stormcell.guest.kernel import write_file

INSTANCES = "/sys/kernel/tracing/instances"
_ENTRY = re.compile(r"\{ (.*?) \} hitcount:\s*(\d+)")
_FIELD = re.compile(r"([\w.]+): +(.*?)(?:, (?=[\w.]+: )|$)")


def start(name: str, event: str, keys: str, condition: str) -> None:
    """Begin to count `event` (system/name) by `keys` where `condition` holds. Raises FileExistsError, OSError."""
    os.mkdir(f"{INSTANCES}/{name}")
    write_file(f"{INSTANCES}/{name}/events/{event}/trigger", f"hist:keys={keys} if {condition}\n")


def counted(name: str, event: str) -> list[tuple[dict[str, str], int]] | None:
    """The keys of each entry with its hits. None when nothing counts."""
    try:
        with open(f"{INSTANCES}/{name}/events/{event}/hist", encoding="utf-8", errors="replace") as file:
            entries = _ENTRY.findall(file.read())
    except FileNotFoundError:
        return None
    return [({key: text.strip() for key, text in _FIELD.findall(keys)}, int(hits)) for keys, hits in entries]


def stop(name: str) -> None:
    """End it; there need not be one."""
    try:
        os.rmdir(f"{INSTANCES}/{name}")  # takes the trigger with it
    except FileNotFoundError:
        pass
