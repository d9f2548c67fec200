"""Take swap space away, and give it back with the priority that it had."""

from __future__ import annotations

import ctypes
import os
from typing import Any

from stormcell.guest.tools import common, holders

TABLE = "/proc/swaps"
_PREFER, _PRIORITY = 0x8000, 0x7FFF  # linux/swap.h
_COUNTERS = ("pswpin", "pswpout")


def off(mark: str, device: str) -> dict[str, Any]:
    """Swap off on `device`, or on every one for `all`. What was there is written down first.

    Raises LookupError when there is no swap; nothing was done then.
    """
    there = areas()
    chosen = [area for area in there if device in ("all", area["device"])]
    if not chosen:
        known = ", ".join(area["device"] for area in there) or "none"
        raise LookupError(f"there is no swap{'' if device == 'all' else f' on {device}'} (in use: {known})")
    common.put_mark(mark, {"areas": chosen, "counters": counters()})
    for area in chosen:
        _call("swapoff", area["device"])
    return {"off": chosen}


def on(mark: str) -> None:
    """Back on, where it is not. May be said twice."""
    known = common.get_mark(mark)
    if not known:
        return
    there = {area["device"] for area in areas()}
    for area in known["areas"]:
        if area["device"] not in there:
            wanted = area["priority"]
            _call("swapon", area["device"], _PREFER | wanted & _PRIORITY if wanted >= 0 else 0)
    common.drop_mark(mark)


def show(mark: str) -> dict[str, Any]:
    """The areas now and those that were taken away, and the kernel's counters of pages swapped."""
    known = common.get_mark(mark) or {}
    return {"areas": areas(), "off": known.get("areas"), "at_act": known.get("counters"), "counters": counters()}


def areas() -> list[dict[str, Any]]:
    """/proc/swaps: device, kind, size and use in bytes, priority."""
    found = []
    for line in (common.read_text(TABLE) or "").splitlines()[1:]:
        device, kind, size, used, priority = line.rsplit(maxsplit=4)
        found.append(
            {
                "device": device.encode().decode("unicode_escape"),
                "kind": kind,
                "size": int(size) << 10,
                "used": int(used) << 10,
                "priority": int(priority),
            }
        )
    return found


def counters() -> dict[str, int]:
    """Pages swapped in and out since the boot."""
    lines = (line.split() for line in (common.read_text("/proc/vmstat") or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in lines if len(pair) == 2 and pair[0] in _COUNTERS}


def _call(name: str, path: str, *flags: int) -> None:
    if getattr(holders.libc(), name)(path.encode(), *flags) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), f"{name} {path}")


def main(argv: list[str]) -> int:
    """`swap off|on|show`."""
    return common.serve("swap", {"off": off, "on": on, "show": show}, argv)
