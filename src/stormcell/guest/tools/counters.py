"""Histograms of the kernel's tracer: it counts events by process, and nothing is recorded for each of them.

Each is a trigger on an event with a name of its own (Documentation/trace/histogram.rst); a process that dies is still
counted. An instance of the tracer would hold them apart better, but takes 150 ms to make and as long to remove.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

TRACING = "/sys/kernel/tracing"
_ENTRY = re.compile(r"\{ (.*?) \} hitcount:\s*(\d+)((?:\s+\w+:\s*\d+)*)")
_STACK = re.compile(r"\{ stacktrace:(.*?)\} hitcount:\s*(\d+)", re.DOTALL)
_PROCESS = re.compile(r"common_pid: (.*?)\s*\[\s*(\d+)\]\s*")
Entries = list[dict[str, str]]


def start(name: str, event: str, keys: str, condition: str, values: str = "hitcount") -> None:
    """Begin to count the events `event` (`block/block_bio_queue`) that meet the condition. Raises OSError."""
    if _trigger(name, event) is not None:
        raise ValueError(f"something counts as '{name}' already")
    _write(event, f"hist:keys={keys}:vals={values}:name={_plain(name)} if {condition}")


def read(name: str, event: str) -> Entries | None:
    """Each entry with its keys and values as text, `hitcount` among them, and `process` as `command[pid]`.

    None when nothing counts.
    """
    part = _part(name, event)
    return None if part is None else [_entry(*found.groups()) for found in _ENTRY.finditer(part)]


def stacks(name: str, event: str) -> list[tuple[str, int]] | None:
    """Of a counter whose key is `stacktrace`: each stack of the kernel, and how often. None when nothing counts."""
    part = _part(name, event)
    return None if part is None else [(found[1], int(found[2])) for found in _STACK.finditer(part)]


def stop(name: str, events: Iterable[str]) -> None:
    """End it; there need not be one."""
    for event in events:
        if (trigger := _trigger(name, event)) is not None:
            _write(event, f"!{trigger}")


def _part(name: str, event: str) -> str | None:
    """Of the event's histograms the one of this name."""
    for part in (_text(event, "hist") or "").split("# trigger info: ")[1:]:
        if _named(part.partition("\n")[0], name):
            return part
    return None


def _trigger(name: str, event: str) -> str | None:
    lines = (_text(event, "trigger") or "").splitlines()
    found = next((line for line in lines if line.startswith("hist:") and _named(line, name)), None)
    return found and found.rpartition(" [")[0]


def _named(line: str, name: str) -> bool:
    return f"name={_plain(name)}:" in line


def _plain(name: str) -> str:
    return "stormcell_" + re.sub(r"\W", "_", name)


def _write(event: str, text: str) -> None:
    """Appended: opened for writing anew, the file would lose every trigger that is there (event_trigger_regex_open)."""
    path = f"{TRACING}/events/{event}/trigger"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, os.strerror(error.errno or 0), path) from None
    finally:
        os.close(fd)


def _text(event: str, name: str) -> str | None:
    try:
        with open(f"{TRACING}/events/{event}/{name}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _signed(text: str) -> str:
    """The tracer writes negative numbers as if they had no sign."""
    return str(int(text) - (1 << 64)) if text.isdigit() and int(text) >> 63 else text


def _entry(keys: str, hits: str, values: str) -> dict[str, str]:
    found: dict[str, str] = {"hitcount": hits}
    if (process := _PROCESS.match(keys)) is not None:
        found["process"] = f"{process[1]}[{process[2]}]"
        keys = keys[process.end() :].lstrip(", ")
    for text in keys.split(", "):
        key, _, value = text.partition(":")
        if key.strip():
            found[key.strip()] = _signed(value.strip())
    return found | dict(re.findall(r"(\w+):\s*(\d+)", values))
