"""adjtimex(2): the rate of the clocks and the leap second, which Python does not reach."""

from __future__ import annotations

import ctypes
import os

SET_FREQUENCY, SET_STATUS, SET_TAI, SET_TICK = 0x0002, 0x0010, 0x0080, 0x4000
LOOP, INSERT, DELETE = 0x0001, 0x0010, 0x0020
STATES = ("ok", "insert", "delete", "in leap second", "leap second happened", "not synchronised")
TICK_PPM = 100
"""One unit of `tick` (1 us of 10,000) is a hundred parts in a million."""
SCALE = 1 << 16
"""Of `freq`: parts in a million with a 16-bit fraction."""


class Timex(ctypes.Structure):
    """struct timex (linux/timex.h), as far as it is used here; the rest is room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("pps", ctypes.c_long * 8),
        ("tai", ctypes.c_int),
        ("room", ctypes.c_int * 11),
    )


def call(**fields: int) -> tuple[int, Timex]:
    """(clock state, what the kernel shows). Raises OSError, ValueError for a value that the kernel refuses."""
    told = Timex(**fields)
    state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(told))
    if state < 0:
        number = ctypes.get_errno()
        raise ValueError(f"the kernel refuses adjtimex({fields}): {os.strerror(number)}")
    return state, told


def shown() -> dict[str, int | str]:
    """What the kernel shows."""
    state, told = call()
    return {
        "tick": told.tick,
        "freq": told.freq,
        "status": told.status,
        "tai": told.tai,
        "state": STATES[state] if state < len(STATES) else str(state),
    }


def set_rate(tick: int, freq: int) -> None:
    """`freq` scaled by 2^16."""
    call(modes=SET_TICK | SET_FREQUENCY, tick=tick, freq=freq)


def set_leap(flag: int, status: int) -> None:
    """Plan a leap second for the end of this UTC day, or with 0 none. The other bits of `status` are kept."""
    writable = status & ~(INSERT | DELETE) & 0x00FF
    call(modes=SET_STATUS, status=writable | flag)


def forget_leap(status: int) -> None:
    """End what is left of an earlier leap second, for until then the kernel plans no other.

    It remembers one that is over until a second has begun without a flag (TIME_WAIT in second_overflow,
    kernel/time/ntp.c), and forgets it at once when the phase-locked loop is switched off (process_adj_status). A loop
    that somebody uses is left alone.
    """
    if not status & LOOP:
        for loop in (LOOP, 0):
            call(modes=SET_STATUS, status=status & ~(INSERT | DELETE) & 0x00FF | loop)


def set_tai(seconds: int) -> None:
    """TAI - UTC as the kernel counts it."""
    call(modes=SET_TAI, constant=seconds)
