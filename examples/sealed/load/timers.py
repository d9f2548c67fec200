"""Timers of every make, while somebody jumps with the wall clock.

An interval timer with a signal, a timerfd on the wall clock that is cancelled by a jump, a poll, a condition with a
timeout; each writes down when it went off and what the clocks said.
"""

import ctypes
import errno
import os
import select
import signal
import struct
import threading
import time

from diary import Diary, until_told

ABSTIME, CANCEL_ON_SET = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


def clocks() -> str:
    return f"{time.clock_gettime_ns(time.CLOCK_REALTIME)} {time.clock_gettime_ns(time.CLOCK_PROCESS_CPUTIME_ID)}"


def interval(diary: Diary) -> None:
    """The handler runs in the main thread, in the middle of whatever that does."""
    signal.signal(signal.SIGALRM, lambda *_: diary.note("alarm", clocks()))
    signal.setitimer(signal.ITIMER_REAL, 0.011, 0.017)


def wall(diary: Diary) -> None:
    timer = libc.timerfd_create(time.CLOCK_REALTIME, 0)
    while True:
        seconds, rest = divmod(time.clock_gettime_ns(time.CLOCK_REALTIME) + 40_000_000, 1_000_000_000)
        libc.timerfd_settime(timer, ABSTIME | CANCEL_ON_SET, struct.pack("4q", 0, 0, seconds, rest), None)
        try:
            os.read(timer, 8)
            diary.note("wall", clocks())
        except OSError as error:
            diary.note("wall", errno.errorcode[error.errno or 0], clocks())


def polled(diary: Diary) -> None:
    reading, _ = os.pipe()
    poll = select.poll()
    poll.register(reading)
    while True:
        poll.poll(23)
        diary.note("poll", clocks())


def conditional(diary: Diary) -> None:
    condition = threading.Condition()
    while True:
        with condition:
            condition.wait(0.029 + os.urandom(1)[0] / 10_000)
        diary.note("condition", clocks())


def main() -> None:
    diary = Diary("timers")
    for work in (wall, polled, conditional):
        threading.Thread(target=work, args=(diary,), daemon=True).start()
    interval(diary)
    until_told("timers")


main()
