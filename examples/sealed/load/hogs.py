"""Processes that take memory in random pieces and touch it in random places, until the kernel kills them.

The parent, which the kernel may not choose, writes down who died of what, and starts another one.
"""

import os
import random
import signal
import threading
import time
from pathlib import Path

from diary import Diary, comm, until_told

MIB = 1 << 20
HOGS = 3


def hog(number: int) -> None:
    diary = Diary("hogs", number)
    dice = random.Random(os.urandom(16))
    held: list[bytearray] = []
    while True:
        held.append(bytearray(b"x") * dice.randrange(MIB // 4, 2 * MIB))
        for _ in range(30):
            block = dice.choice(held)
            block[dice.randrange(len(block))] ^= 1
        if sum(map(len, held)) > 24 * MIB:
            del held[dice.randrange(len(held))]
        statm = Path("/proc/self/statm").read_text().split()
        diary.note(len(held), "resident", statm[1], "faults", Path("/proc/self/stat").read_text().split()[9])
        time.sleep(dice.random() / 20)


def start(number: int) -> int:
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        Path("/proc/self/oom_score_adj").write_text(str(number * 100))
        hog(number)
    return child


def keep(diary: Diary) -> None:
    children = {start(number): number for number in range(HOGS)}
    while True:
        pid, status = os.wait()
        number = children.pop(pid)
        diary.note("pid", pid, "hog", number, "status", status, "entropy", os.urandom(4).hex())
        children[start(number)] = number


def main() -> None:
    comm("hog")
    Path("/proc/self/oom_score_adj").write_text("-1000")
    threading.Thread(target=keep, args=(Diary("hogs"),), daemon=True).start()
    until_told("hogs")


main()
