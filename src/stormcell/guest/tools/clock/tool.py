"""The clocks: where they stand, and how to move the wall clock, its rate, and its leap second."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from typing import Any, TypeVar

from stormcell.guest.tools import common
from stormcell.guest.tools.clock import adjtime, hand, setters

T = TypeVar("T")

GOOD_NS = 50_000
TRIES = 50
GAP_NS = 2_000_000
"""A busy loop of an emulated CPU takes far less between two looks."""
DAY_S = 86400


def offset_ns(against: int = time.CLOCK_BOOTTIME) -> int:
    """CLOCK_REALTIME - CLOCK_BOOTTIME. The best of some tries: an emulated CPU can stop between two reads."""
    best, offset = 1 << 62, 0
    for _ in range(TRIES):
        first = time.clock_gettime_ns(against)
        wall = time.clock_gettime_ns(time.CLOCK_REALTIME)
        second = time.clock_gettime_ns(against)
        if second - first < best:
            best, offset = second - first, wall - (first + second) // 2
        if best < GOOD_NS:
            break
    return offset


def offset() -> str:
    """Nanoseconds, as plain text."""
    return f"{offset_ns()}\n"


def raw_offset() -> str:
    """The same against CLOCK_MONOTONIC_RAW, whose rate nobody can change."""
    return f"{offset_ns(time.CLOCK_MONOTONIC_RAW)}\n"


def everything() -> dict[str, int]:
    """All clocks of this moment, in nanoseconds."""
    raw, boottime, monotonic = map(
        time.clock_gettime_ns, (time.CLOCK_MONOTONIC_RAW, time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC)
    )
    return {"raw": raw, "boottime": boottime, "monotonic": monotonic, "realtime": boottime + offset_ns()}


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


# -- moving it ----------------------------------------------------------------------------------------------------


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


def _set(offset_wanted: int, against: int = time.CLOCK_BOOTTIME) -> None:
    setters.call_me()
    target = time.clock_gettime_ns(against) + offset_wanted
    try:
        time.clock_settime_ns(time.CLOCK_REALTIME, target)
    except (OSError, OverflowError) as error:
        raise ValueError(
            f"the kernel refuses to set the clock to {target / 1e9:.0f} s after 1970 "
            f"({common.describe(error)}): it takes no time before its boot, and none after 2232"
        ) from error


# -- who else does ------------------------------------------------------------------------------------------------


def begin(name: str, daemons: str) -> dict[str, Any]:
    """Count who sets the clock from now on; `daemons` is stop or leave: stopped ones are held with SIGSTOP."""
    held = [process.as_dict() for process in setters.daemons()] if daemons == "stop" else []
    common.put_mark(_mark(name), {"held": held})
    setters.start(name)
    setters.send(held, signal.SIGSTOP)
    return {"held": held}


def end(name: str) -> None:
    """Our hands off the clock, the daemons go on. Harmless a second time; the clock itself stays where it is."""
    hand.stop(f"{_mark(name)}.hand")
    setters.stop(name)
    setters.send((common.get_mark(_mark(name)) or {}).get("held", []), signal.SIGCONT)
    common.drop_mark(_mark(name))


def put_back(name: str, offset_before: str) -> dict[str, int]:
    """The wall clock with its offset from before, our own hand off it first, the daemons on it afterwards."""
    return _ending(name, lambda: restore(offset_before))


def _ending(name: str, work: Callable[[], T]) -> T:
    hand.stop(f"{_mark(name)}.hand")
    try:
        return work()
    finally:
        end(name)


def watch(name: str) -> dict[str, Any]:
    """Who set or adjusted the clock since `begin`, which time daemons there are, and what our own hand does."""
    known = common.get_mark(_mark(name))
    return {
        "begun": known is not None,
        "held": (known or {}).get("held", []),
        "acted_at": (known or {}).get("acted_at"),
        "set": setters.counted(name, setters.SETS),
        "adjusted": setters.counted(name, setters.ADJUSTS),
        "daemons": [process.as_dict() for process in setters.daemons()],
        "hand": hand.shown(f"{_mark(name)}.hand"),
    }


def slow(name: str, speed: str, step: str) -> dict[str, Any]:
    """The wall clock goes at `speed` (0 to 1): put back every `step` seconds to where it would then be."""
    first, zero, rate = offset_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), float(speed)
    about = {"mode": "slow", "speed": rate, "step_s": float(step)}
    return hand.start(f"{_mark(name)}.hand", about, float(step), lambda boot: first - round((1 - rate) * (boot - zero)))


def strobe(name: str, nanoseconds: str, period: str) -> dict[str, Any]:
    """The wall clock jumps by so much and back again, half a period (seconds) each."""
    first, zero, half = offset_ns(), time.clock_gettime_ns(time.CLOCK_BOOTTIME), round(float(period) * 5e8)
    _set(first + int(nanoseconds))
    about = {"mode": "strobe", "by": int(nanoseconds), "period_s": float(period)}
    return hand.start(
        f"{_mark(name)}.hand",
        about,
        float(period) / 2,
        lambda boot: first + (0 if round((boot - zero) / half) % 2 else int(nanoseconds)),
    )


def _mark(name: str) -> str:
    return f"clock-{name}"


# -- its rate, and the leap second --------------------------------------------------------------------------------


def kernel() -> dict[str, int | str]:
    """What adjtimex(2) shows."""
    return adjtime.shown()


def rate() -> str:
    """Tick and frequency, as `drift-back` takes them."""
    shown = adjtime.shown()
    return f"{shown['tick']},{shown['freq']}\n"


def drift(tick: str, freq: str) -> dict[str, int | str]:
    """Run at that rate."""
    setters.call_me()
    adjtime.set_rate(int(tick), int(freq))
    return adjtime.shown()


def drift_back(name: str, before: str, raw: str) -> dict[str, int | str]:
    """The old rate, and the wall clock where it would be now had it kept that."""

    def work() -> dict[str, int | str]:
        setters.call_me()
        tick, freq = before.split(",")
        adjtime.set_rate(int(tick), int(freq))
        _set(int(raw), time.CLOCK_MONOTONIC_RAW)
        return adjtime.shown()

    return _ending(name, work)


def leap(name: str, kind: str, lead: str) -> dict[str, int | str]:
    """Insert or delete a second: the wall clock is put `lead` seconds before the next UTC midnight, then the flag."""
    now = time.clock_gettime_ns(time.CLOCK_REALTIME)
    midnight = (now // (DAY_S * 10**9) + 1) * DAY_S * 10**9
    status = int(adjtime.shown()["status"])
    adjtime.forget_leap(status)
    # a jump forgets a planned leap second (ntp_clear in the kernel), so the flag comes after it
    acted_at = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    _set(midnight - round(float(lead) * 1e9) - acted_at)
    common.put_mark(_mark(name), {**(common.get_mark(_mark(name)) or {}), "acted_at": acted_at})
    adjtime.set_leap(adjtime.INSERT if kind == "insert" else adjtime.DELETE, status)
    return adjtime.shown()


def leap_state() -> str:
    """Status and TAI offset, as `leap-back` takes them."""
    shown = adjtime.shown()
    return f"{shown['status']},{shown['tai']}\n"


def leap_back(name: str, before: str, offset_before: str) -> dict[str, int | str]:
    """No leap second is planned any more, and clock and TAI offset are those from before."""

    def work() -> dict[str, int | str]:
        status, tai = before.split(",")
        adjtime.set_leap(int(status) & (adjtime.INSERT | adjtime.DELETE), int(status))
        adjtime.set_tai(int(tai))
        _set(int(offset_before))
        return adjtime.shown()

    return _ending(name, work)


VERBS: dict[str, common.Verb] = {
    "offset": offset,
    "raw-offset": raw_offset,
    "all": everything,
    "gaps": gaps,
    "jump": jump,
    "restore": restore,
    "begin": begin,
    "put-back": put_back,
    "watch": watch,
    "slow": slow,
    "strobe": strobe,
    "kernel": kernel,
    "rate": rate,
    "drift": drift,
    "drift-back": drift_back,
    "leap": leap,
    "leap-state": leap_state,
    "leap-back": leap_back,
}


def main(argv: list[str]) -> int:
    """Reads the clocks and moves the wall clock."""
    return common.serve("clock", VERBS, argv)
