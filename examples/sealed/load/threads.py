"""Threads that race on a counter, pass words through a queue, and are interrupted by signals and by their hashes.

The interpreter is told to switch between them every 20 microseconds, so that increments are lost. How many, and in
which order everything else came, is written down.
"""

import os
import queue
import random
import signal
import sys
import threading
import time

from diary import Diary, comm, until_told

RACERS = 4
ROUND = 50
shared = [0]


def race(diary: Diary, number: int) -> None:
    dice = random.Random(os.urandom(8))
    done = 0
    while True:
        for _ in range(ROUND):
            value = shared[0]
            for _ in range(dice.randrange(6)):
                value = value + 1 - 1
            shared[0] = value + 1
        done += ROUND
        diary.note("racer", number, "added", done, "shared", shared[0])
        time.sleep(dice.random() / 50)


def produce(words: "queue.Queue[str]") -> None:
    while True:
        words.put(os.urandom(4).hex())
        time.sleep(0.003)


def consume(diary: Diary, words: "queue.Queue[str]") -> None:
    """The order of a set of strings depends on the hash seed that the process got at its start."""
    while True:
        some = {words.get() for _ in range(5)}
        diary.note("words", *some)


def main() -> None:
    comm("threads")
    sys.setswitchinterval(2e-5)
    diary, words = Diary("threads"), queue.Queue(8)
    signal.signal(signal.SIGPROF, lambda *_: diary.note("profiled", shared[0]))
    signal.setitimer(signal.ITIMER_PROF, 0.05, 0.05)
    for number in range(RACERS):
        threading.Thread(target=race, args=(diary, number), daemon=True).start()
    for _ in range(2):
        threading.Thread(target=produce, args=(words,), daemon=True).start()
        threading.Thread(target=consume, args=(diary, words), daemon=True).start()
    until_told("threads")


main()
