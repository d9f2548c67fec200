#!/usr/bin/env python3
"""Couriers share one van, whose key is a file; who finds no key looks again a little later.

    courier.py ride HOW_MANY_COURIERS
    courier.py look SECONDS     prints how many parcels were brought in the last so many seconds

The defect: the key is taken by making the file and given back by removing it. A courier who dies on the road has it for
ever. (A lock of the kernel's, flock(2), goes with its holder.) Who dies is replaced by another at once.
"""

import os
import random
import sys
import time
from pathlib import Path

YARD = Path("/var/tmp/yard")
KEY = YARD / "van.key"
PARCELS = YARD / "parcels"
ROAD_S = 0.02
BETWEEN_S = 0.3
"""Between two parcels of one courier, on average."""


def ride(couriers: int) -> None:
    YARD.mkdir(exist_ok=True)
    KEY.unlink(missing_ok=True)
    names = {hire(number): number for number in range(couriers)}
    while True:
        pid, _ = os.wait()
        number = names.pop(pid)
        names[hire(number)] = number


def hire(number: int) -> int:
    pid = os.fork()
    if pid == 0:
        Path("/proc/self/comm").write_text(f"courier-{number}")
        work()
    return pid


def work() -> None:
    draw = random.Random()
    while True:
        time.sleep(draw.uniform(0.5, 1.5) * BETWEEN_S)
        while not took_the_key():
            time.sleep(0.01)
        time.sleep(ROAD_S)
        with PARCELS.open("a") as parcels:
            parcels.write(f"{time.monotonic():.3f}\n")
        KEY.unlink()


def took_the_key() -> bool:
    try:
        os.close(os.open(KEY, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def look(seconds: float) -> int:
    since = time.monotonic() - seconds
    return sum(float(line) >= since for line in PARCELS.read_text().splitlines())


if __name__ == "__main__":
    if sys.argv[1] == "ride":
        ride(int(sys.argv[2]))
    else:
        print(look(float(sys.argv[2])))
