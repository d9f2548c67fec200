"""Files of random size and SQLite commits in one folder, for ever; with no room left it waits for some.

writer.py write FOLDER      until SIGTERM
writer.py check FOLDER      acknowledged commits that the database does not have, and what SQLite says of it
"""

import hashlib
import os
import random
import sqlite3
import sys
import threading
import time
from pathlib import Path

from diary import Diary, until_told


def opened(folder: Path) -> sqlite3.Connection:
    base = sqlite3.connect(folder / "base.sqlite", isolation_level=None, timeout=10)
    base.execute("PRAGMA synchronous = FULL")
    base.execute("PRAGMA journal_mode = PERSIST")
    base.execute("CREATE TABLE IF NOT EXISTS kept (number INTEGER PRIMARY KEY, bytes BLOB NOT NULL)")
    return base


def commits(folder: Path, diary: Diary) -> None:
    """A commit, then its number in a file of its own, each on the disk before the next one."""
    base = opened(folder)
    acknowledged = os.open(folder / "acknowledged", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    while True:
        data = os.urandom(100 + 4 * os.urandom(1)[0])
        try:
            number = base.execute("INSERT INTO kept (bytes) VALUES (?)", (data,)).lastrowid
            os.write(acknowledged, f"{number}\n".encode())
            os.fdatasync(acknowledged)
            diary.note("commit", number, hashlib.sha256(data).hexdigest()[:12])
        except (sqlite3.Error, OSError) as error:
            diary.note("commit", type(error).__name__, error)
            time.sleep(0.02)


def files(folder: Path, diary: Diary) -> None:
    dice = random.Random(os.urandom(16))
    for number in range(1 << 30):
        path = folder / f"file.{number}"
        try:
            path.write_bytes(os.urandom(dice.randrange(1, 20_000)))
            diary.note(path.name, path.stat().st_size, path.stat().st_ino)
        except OSError as error:
            diary.note(path.name, error.strerror)
        time.sleep(dice.random() / 50)


def write(folder: Path) -> None:
    opened(folder).close()
    for name, work in (("commits", commits), ("files", files)):
        threading.Thread(target=work, args=(folder, Diary("writer", name)), daemon=True).start()
    until_told("writer")


def check(folder: Path) -> None:
    base = opened(folder)
    there = dict(base.execute("SELECT number, bytes FROM kept"))
    lines = (folder / "acknowledged").read_text().splitlines(keepends=True)
    promised = {int(line) for line in lines if line.endswith("\n")}
    print("lost", len(promised - there.keys()), "of", len(promised))
    print("integrity", base.execute("PRAGMA integrity_check").fetchone()[0])
    print("sha256", hashlib.sha256(b"".join(there[number] for number in sorted(there))).hexdigest())


if __name__ == "__main__":
    {"write": write, "check": check}[sys.argv[1]](Path(sys.argv[2]))
