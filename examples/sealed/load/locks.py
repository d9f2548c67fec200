"""Processes that race for locks: flock, POSIX locks and a futex, around counters that nothing else protects.

They also signal each other. One of them is called `holder`, so that a fault can stop it while it holds a lock.
"""

import fcntl
import mmap
import multiprocessing
import os
import random
import signal
import struct
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from diary import Diary, comm, until_told

RACERS = 5
FILE = Path("/var/tmp/lockfile")
KINDS = ("flock", "posix", "futex", "none")


@contextmanager
def locked(take: Callable[[int, int], object], file: int):
    take(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        take(file, fcntl.LOCK_UN)


def race(number: int, counters: mmap.mmap, futex: AbstractContextManager) -> None:
    """Add one to a counter of the kind's own; what two of them add at once without a lock is added once."""
    comm("holder" if number == 0 else "racer")
    diary, dice = Diary("locks", number), random.Random(os.urandom(16))
    nudges: list[int] = []
    signal.signal(signal.SIGUSR1, lambda *_: nudges.append(time.monotonic_ns()))
    file = os.open(FILE, os.O_RDWR | os.O_CREAT, 0o644)
    while True:
        kind = dice.choice(KINDS)
        how = {
            "flock": locked(fcntl.flock, file),
            "posix": locked(fcntl.lockf, file),
            "futex": futex,
            "none": nullcontext(),
        }[kind]
        at = 8 * KINDS.index(kind)
        with how:
            value = struct.unpack_from("q", counters, at)[0] + 1
            if dice.random() < 0.5:
                time.sleep(dice.random() / 500)
            struct.pack_into("q", counters, at, value)
        diary.note(kind, value, "nudged", len(nudges))
        time.sleep(dice.random() / 50)
        if dice.random() < 0.1:
            os.killpg(0, signal.SIGUSR1)


def main() -> None:
    signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    counters, futex = mmap.mmap(-1, mmap.PAGESIZE), multiprocessing.get_context("fork").Lock()
    for number in range(RACERS):
        if os.fork() == 0:
            race(number, counters, futex)
    until_told("locks")


main()
