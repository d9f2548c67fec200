#!/usr/bin/env python3
"""A desk that serves one customer after the other, and customers who ask again when they get no answer.

    desk.py serve           answers each request on port 7070 after some milliseconds of work
    desk.py ask CUSTOMERS   each asks every two seconds or so, and writes down what came of it
    desk.py look SECONDS    prints the share of the last so many seconds' requests that were answered, in per cent

The defect: a customer who got no answer in time asks again after exactly one second, and so do all who waited with it.
Together they are more than the desk can serve within the time that they wait; it goes on to serve requests whose
customers have left, and the same customers come back in step, for ever.
"""

import random
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

PLACE = ("127.0.0.1", 7070)
BOOK = Path("/var/tmp/desk")
WORK_S = 0.02
PATIENCE_S = 0.5
AGAIN_S = 1.0
BETWEEN_S = 2.0
"""Between an answer and the next request of one customer, on average."""


def serve() -> None:
    Path("/proc/self/comm").write_text("desk")
    with socket.create_server(PLACE, backlog=512) as desk:
        while True:
            customer, _ = desk.accept()
            with customer:
                customer.recv(64)
                time.sleep(WORK_S)  # it works for one at a time
                try:
                    customer.sendall(b"done\n")
                except OSError:
                    pass  # the customer has left; the work was done for nobody


def ask(customers: int) -> None:
    with BOOK.open("w", buffering=1) as book:
        for _ in range(customers):
            threading.Thread(target=live, args=(book,)).start()
        threading.Event().wait()


def live(book: TextIO) -> None:
    draw = random.Random()
    while True:
        time.sleep(draw.uniform(0.5, 1.5) * BETWEEN_S)
        while not answered():
            book.write(f"{time.monotonic():.3f} 0\n")
            time.sleep(AGAIN_S)
        book.write(f"{time.monotonic():.3f} 1\n")


def answered() -> bool:
    try:
        with socket.create_connection(PLACE, PATIENCE_S) as desk:
            desk.settimeout(PATIENCE_S)
            desk.sendall(b"please\n")
            return desk.recv(64) == b"done\n"
    except OSError:
        return False


def look(seconds: float) -> float:
    since = time.monotonic() - seconds
    lines = [line.split() for line in BOOK.read_text().splitlines()]
    lately = [answer == "1" for moment, answer in lines if float(moment) >= since]
    return 100 * sum(lately) / len(lately) if lately else 100.0


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    elif sys.argv[1] == "ask":
        ask(int(sys.argv[2]))
    else:
        print(f"{look(float(sys.argv[2])):.1f}")
