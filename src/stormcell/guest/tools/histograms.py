"""Counting in the kernel: a histogram on a tracepoint, by a name of ours (Documentation/trace/histogram.rst).

Nothing is recorded per event, and a process that dies is still counted. It hangs on the event of the tracer that is
there already: an instance of the tracer costs ten times as much to make, and twice as much to remove.
"""

from __future__ import annotations

import re

from stormcell.guest.kernel import write_file

EVENTS = "/sys/kernel/tracing/events"
_ENTRY = re.compile(r"\{ (.*?) \} hitcount:\s*(\d+)")
_FIELD = re.compile(r"([\w.]+): +(.*?)(?:, (?=[\w.]+: )|$)")
_SECTION = re.compile(r"^# trigger info: hist:name=([^:\s]+):", re.M)


def start(name: str, event: str, keys: str, condition: str) -> None:
    """Begin to count `event` (system/name) by `keys` where `condition` holds. Raises FileExistsError, OSError."""
    if _trigger(name, event) is not None:
        raise FileExistsError(f"something is counted as '{name}' already")
    write_file(f"{EVENTS}/{event}/trigger", f"hist:keys={keys}:name={name} if {condition}\n")


def counted(name: str, event: str) -> list[tuple[dict[str, str], int]] | None:
    """The keys of each entry with its hits. None when nothing counts."""
    try:
        with open(f"{EVENTS}/{event}/hist", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except FileNotFoundError:
        return None
    parts = _SECTION.split(text)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    if name not in sections:
        return None
    entries = _ENTRY.findall(sections[name])
    return [({key: said.strip() for key, said in _FIELD.findall(keys)}, int(hits)) for keys, hits in entries]


def stop(name: str, event: str) -> None:
    """End it; there need not be one."""
    trigger = _trigger(name, event)
    if trigger is not None:
        write_file(f"{EVENTS}/{event}/trigger", f"!{trigger}\n")


def _trigger(name: str, event: str) -> str | None:
    """As the kernel writes it, without its state."""
    try:
        with open(f"{EVENTS}/{event}/trigger", encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    found = (line for line in lines if line.startswith(f"hist:name={name}:"))
    return next((line.rpartition(" [")[0] for line in found), None)
