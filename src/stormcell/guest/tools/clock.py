"""The wall clock: where it stands against the time since boot, and how to move it."""

from __future__ import annotations

import time

from stormcell.guest.tools import common

GOOD_NS = 50_000
TRIES = 50
GAP_NS = 2_000_000
"""A busy loop of an emulated CPU takes far less between two looks."""


def offset_ns() -> int:
    """CLOCK_REALTIME - CLOCK_BOOTTIME. The best of some tries: an emulated CPU can stop between two reads."""
    best, offset = 1 << 62, 0
    for _ in range(TRIES):
        first = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        wall = time.clock_gettime_ns(time.CLOCK_REALTIME)
        second = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if second - first < best:
            best, offset = second - first, wall - (first + second) // 2
        if best < GOOD_NS:
            break
    return offset


def offset() -> str:
    """Nanoseconds, as plain text."""
    return f"{offset_ns()}\n"


def everything() -> dict[str, int]:
    """All clocks of this moment, in nanoseconds."""
    boottime = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    return {
        "boottime": boottime,
        "realtime": boottime + offset_ns(),
        "monotonic": time.clock_gettime_ns(time.CLOCK_MONOTONIC),
        "raw": time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW),
    }


def gaps(seconds: str) -> dict[str, float]:
    """Look at the clock in a busy loop: how much of the time was missed in gaps that are no ordinary step."""
    began = last = time.monotonic_ns()
    end = began + round(float(seconds) * 1e9)
    lost = longest = count = 0
    while last < end:
        now = time.monotonic_ns()
        if now - last > GAP_NS:
            lost += now - last
            longest = max(longest, now - last)
            count += 1
        last = now
    return {"seconds": (last - began) / 1e9, "lost_s": lost / 1e9, "longest_s": longest / 1e9, "gaps": count}


def jump(nanoseconds: str) -> dict[str, int]:
    """Move the wall clock by so much. The kernel refuses a time before boot."""
    before = offset_ns()
    _set(before + int(nanoseconds))
    return {"before": before, "after": offset_ns()}


def restore(nanoseconds: str) -> dict[str, int]:
    """Put the wall clock so that its offset is this again; the time that has passed since is kept."""
    before = offset_ns()
    _set(int(nanoseconds))
    return {"before": before, "after": offset_ns()}


def _set(offset_wanted: int) -> None:
    target = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + offset_wanted
    try:
        time.clock_settime_ns(time.CLOCK_REALTIME, target)
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"the kernel refuses to set the clock to {target / 1e9:.0f} s after 1970 "
            f"({common.describe(error)}): it takes no time before its boot, and none after 2232"
        ) from error


VERBS: dict[str, common.Verb] = {"offset": offset, "all": everything, "gaps": gaps, "jump": jump, "restore": restore}


def main(argv: list[str]) -> int:
    """Reads the clocks and moves the wall clock."""
    return common.serve("clock", VERBS, argv)
