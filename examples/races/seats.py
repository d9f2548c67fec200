#!/usr/bin/env python3
"""Sellers of one house count the seats that they sold in one file, and each keeps a book of its own.

    seats.py HOW_MANY_SELLERS

The defect: a seller reads the count, adds one, and writes it back. Whoever was served in between is forgotten.
"""

import os
import random
import signal
import sys
from pathlib import Path

HOUSE = Path("/var/tmp/seats")
COUNT = HOUSE / "sold"
CLOSING = {signal.SIGTERM}
BETWEEN_S = 0.4
"""Between two customers of one seller, on average."""


def sell(sellers: int) -> None:
    HOUSE.mkdir(exist_ok=True)
    COUNT.write_text("0\n")
    signal.pthread_sigmask(signal.SIG_BLOCK, CLOSING)  # each seller waits for it; this one waits for the sellers
    for number in range(sellers):
        if os.fork() == 0:
            at_the_counter(number)
            os._exit(0)
    for _ in range(sellers):
        os.wait()


def at_the_counter(number: int) -> None:
    customers = random.Random()
    book = HOUSE / f"book.{number}"
    sold = 0
    while signal.sigtimedwait(CLOSING, customers.expovariate(1 / BETWEEN_S)) is None:
        fd = os.open(COUNT, os.O_RDWR)
        count = int(os.read(fd, 20))
        os.pwrite(fd, b"%d\n" % (count + 1), 0)
        os.close(fd)
        sold += 1
        book.write_text(f"{sold}\n")


if __name__ == "__main__":
    sell(int(sys.argv[1]))
