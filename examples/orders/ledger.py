"""Places orders without end and writes down what was acknowledged; later compares that with the database.

    ledger.py write --url http://127.0.0.1:8080 --ledger /run/ledger     a line KEY ID for each acknowledged order
    ledger.py lost --database orders --ledger /run/ledger                how many of these the database does not have
    ledger.py twice --database orders --ledger /run/ledger               how many were bought more than once

A customer who gets no answer, or a 5xx, tries again with the same Idempotency-Key, as browsers and SDKs do.
Each line is also printed, and each is on the disk (fdatasync) before the next order, so that it outlives a crash
of the machine where the ledger lies on a disk. An order that was acknowledged but not yet written down is not
counted: the numbers can be too small by one a customer, never too large.
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import uuid
from pathlib import Path
from urllib.parse import urlsplit

TRIES = 5
PSQL = "/usr/lib/postgresql/15/bin/psql"  # the one in /usr/bin is a Perl script that starts this one
CANNOT_CONNECT = 2


def place(netloc: str, key: str, timeout: float) -> int | None:
    """The id of the acknowledged order, None when no answer came or a 5xx."""
    connection = http.client.HTTPConnection(netloc, timeout=timeout)
    try:
        body = json.dumps({"customer": "ledger", "sku": "apple", "quantity": 1})
        connection.request("POST", "/orders", body, {"Idempotency-Key": key})
        answer = connection.getresponse()
        text = answer.read()
        return int(json.loads(text)["id"]) if answer.status in (200, 201) else None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    finally:
        connection.close()


def customer(netloc: str, ledger: int, every: float, timeout: float) -> None:
    """Buy, write it down, wait; for ever. The waits keep the rate even where answers take long."""
    while True:
        begun = time.monotonic()
        key = uuid.uuid4().hex
        for _ in range(TRIES):
            number = place(netloc, key, timeout)
            if number is not None:
                line = f"{key} {number}\n"
                os.write(ledger, line.encode())
                os.fdatasync(ledger)
                sys.stdout.write(line)
                sys.stdout.flush()
                break
            time.sleep(0.2)
        time.sleep(max(0.0, every - (time.monotonic() - begun)))


def write(url: str, ledger: str, rate: float, customers: int, timeout: float) -> None:
    Path(ledger).parent.mkdir(parents=True, exist_ok=True)
    opened = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    netloc = urlsplit(url).netloc
    for _ in range(customers):
        arguments = (netloc, opened, customers / rate, timeout)
        threading.Thread(target=customer, args=arguments, daemon=True).start()
        time.sleep(1 / rate)
    threading.Event().wait()


class Unreachable(Exception):
    """The database cannot be asked; the text says why."""


def in_database(database: str, wait: float) -> list[tuple[str, int]]:
    """Key and id of every order placed here, from PostgreSQL itself: the service may have them from its cache.

    A database that is starting is waited for, `wait` seconds at most. Raises Unreachable.
    """
    sql = "SELECT idempotency_key, id FROM orders WHERE customer = 'ledger'"
    command = [PSQL, "-X", "-AtF", " ", "-h", "127.0.0.1", "-U", "orders", "-d", database, "-c", sql]
    environment = {"PGPASSWORD": "orders", "PGCONNECT_TIMEOUT": "5", **os.environ}
    deadline = time.monotonic() + wait
    while True:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)
        if done.returncode == 0:
            break
        if done.returncode != CANNOT_CONNECT or time.monotonic() > deadline:
            raise Unreachable(done.stderr.strip())
        time.sleep(0.5)
    return [(key, int(number)) for key, _, number in (line.partition(" ") for line in done.stdout.splitlines())]


def acknowledged(ledger: str) -> set[tuple[str, int]]:
    """Whole lines alone: a crash may have torn the last one. No order at all is an error, not "none lost"."""
    lines = Path(ledger).read_text().splitlines(keepends=True) if Path(ledger).exists() else []
    if not lines:
        sys.exit(f"no order was acknowledged in {ledger}: there is nothing to compare")
    return {(key, int(number)) for key, number in (line.split() for line in lines if line.endswith("\n"))}


def lost(sold: list[tuple[str, int]], promised: set[tuple[str, int]]) -> int:
    """Acknowledged under an id that the database does not have, or has given to another order since."""
    return len(promised - set(sold))


def twice(sold: list[tuple[str, int]], promised: set[tuple[str, int]]) -> int:
    """Extra orders: the customer clicked once, and pays for each of them. Unacknowledged ones count too."""
    return len(sold) - len({key for key, _ in sold})


def check(what: str, database: str, ledger: str, wait: float, unreachable: int | None) -> None:
    promised = acknowledged(ledger)
    try:
        number = {"lost": lost, "twice": twice}[what](in_database(database, wait), promised)
    except Unreachable as error:
        if unreachable is None:
            sys.exit(f"the database cannot be asked: {error}")
        number = unreachable
    print(f"{what} {number}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    writing = commands.add_parser("write")
    writing.add_argument("--url", required=True)
    writing.add_argument("--rate", type=float, default=5.0, help="orders a second, all customers together")
    writing.add_argument("--customers", type=int, default=3)
    writing.add_argument("--timeout", type=float, default=2.0, help="seconds a customer waits for an answer")
    for name in ("lost", "twice"):
        checking = commands.add_parser(name)
        checking.add_argument("--database", required=True)
        checking.add_argument("--wait", type=float, default=25.0, help="seconds that a starting database is given")
        checking.add_argument("--unreachable", type=int, help="printed instead of an error when it cannot be asked")
    for command in commands.choices.values():
        command.add_argument("--ledger", default="/run/ledger")
    given = vars(parser.parse_args())
    name = given.pop("command")
    if name == "write":
        write(**given)
    else:
        check(name, **given)


if __name__ == "__main__":
    main()
