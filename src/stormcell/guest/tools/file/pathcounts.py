"""Counts what becomes of calls that name a path, by process and result, with probes of the kernel's tracer.

A probe where the kernel resolves a name notes that a task asked for the path; one where it comes back has the result
(Documentation/trace/kprobetrace.rst, and histogram.rst: a variable that an expression reads is used up by it). Opens of
every kind are met (do_filp_open), and calls that only look (filename_lookup: stat, access, chdir, execve's search).
"""

from __future__ import annotations

import errno
import os
import re
import zlib

from stormcell.guest.tools import counters, refusals

_DEFINE, _SYNTHETIC = "kprobe_events", "synthetic_events"
_PLACES = (("open", "do_filp_open", "s64"), ("look", "filename_lookup", "s32"))
_WORKS, _FAILS = "ret >= 0 || ret < -4095", "ret < 0 && ret > -4096"
_AWKWARD = re.compile(r'["*?\[\]\\\n]')
_MOST = 200


def start(mark: str, *paths: str, works: bool = False) -> None:
    """Begin to count calls that name one of `paths` or what lies below it: those that fail, or else those that work.

    The text counts: another name of the same file does not. Raises OSError, ValueError.
    """
    for path in paths:
        if _AWKWARD.search(path) or len(path) > _MOST:
            raise ValueError(f"{path!r} has characters that the kernel's filters cannot be given, or is too long")
    stop(mark)
    group = _group(mark)
    named = " || ".join(f'name == "{path}" || name ~ "{path.rstrip("/")}/*"' for path in dict.fromkeys(paths))
    lines = [
        f"p:{group}/{what} {function} name=+0(+0(%si)):string\nr:{group}/{what}ed {function} ret=$retval:{kind}\n"
        for what, function, kind in _PLACES
    ]
    _append(_DEFINE, "".join(lines))
    for what, _, kind in _PLACES:
        result = f"{group}_{what}"
        _append(_SYNTHETIC, f"{result} {kind} ret\n")
        variable = f"at_{what}"
        _append(f"events/{group}/{what}/trigger", f"hist:keys=common_pid:{variable}=common_timestamp.usecs if {named}")
        _append(
            f"events/{group}/{what}ed/trigger",
            f"hist:keys=common_pid:r_{what}=ret,t_{what}=common_timestamp.usecs-${variable}"
            f":onmatch({group}.{what}).trace({result},$r_{what})",
        )
        keys, condition = ("common_pid.execname", _WORKS) if works else ("common_pid.execname,ret", _FAILS)
        counters.start(f"{mark}-{what}", f"synthetic/{result}", keys, condition)


def read(mark: str) -> dict[str, dict[str, int]] | None:
    """Result (`ENOENT`, or `ok`) to `command[pid]` to count, our own tools apart. None when nothing counts."""
    found: dict[str, dict[str, int]] = {}
    counting = False
    for what, _, _ in _PLACES:
        entries = counters.read(f"{mark}-{what}", f"synthetic/{_group(mark)}_{what}")
        counting = counting or entries is not None
        for entry in entries or ():
            process = entry.get("process", refusals.OURS)
            if process.startswith(refusals.OURS):
                continue
            code = entry.get("ret", "0").lstrip("-")
            result = "ok" if code == "0" else errno.errorcode.get(int(code), code)
            table = found.setdefault(result, {})
            table[process] = table.get(process, 0) + int(entry["hitcount"])
    return found if counting else None


def stop(mark: str) -> None:
    """End it, also when it was begun half-way; there need not be anything."""
    group = _group(mark)
    events = [f"synthetic/{group}_{what}" for what, _, _ in _PLACES]
    events += [f"{group}/{what}{end}" for what, _, _ in _PLACES for end in ("ed", "")]
    for event in events:  # who reads a variable goes before who has it
        path = f"{counters.TRACING}/events/{event}/trigger"
        if os.path.exists(path):
            os.close(os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC))
    for what, _, _ in _PLACES:
        if os.path.exists(f"{counters.TRACING}/events/synthetic/{group}_{what}"):
            _append(_SYNTHETIC, f"!{group}_{what}\n")
    if os.path.exists(f"{counters.TRACING}/events/{group}"):
        names = os.listdir(f"{counters.TRACING}/events/{group}")
        there = [f"{what}{end}" for what, _, _ in _PLACES for end in ("", "ed") if f"{what}{end}" in names]
        _append(_DEFINE, "".join(f"-:{group}/{name}\n" for name in there))


def _group(mark: str) -> str:
    return f"stormcell_{zlib.crc32(mark.encode()):08x}"


def _append(name: str, text: str) -> None:
    path = f"{counters.TRACING}/{name}"
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    except OSError as error:
        raise OSError(error.errno, f"{os.strerror(error.errno or 0)}: {text.strip()}", path) from None
    finally:
        os.close(fd)
