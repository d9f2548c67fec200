"""Compares what Redis acknowledged with what it has. Shares nothing with the clients: it speaks the protocol itself.

    audit.py formed      wait until all three Sentinels know of each other and of both replicas
    audit.py lost        acknowledged writes that are gone, the seconds between the first and the last, and the story

`lost` says -1 while nobody can tell: as long as the three Sentinels do not name the same master without a doubt, or
another Redis does not know yet that it is a replica of it, and may still acknowledge writes.
"""

import socket
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

BOXES = {"a": "10.77.0.1", "b": "10.77.0.2", "c": "10.77.0.3"}
REDIS, SENTINEL = 6379, 26379
GROUP = "mymaster"
KEPT, LOGS = Path("/var/lib/clients"), Path("/var/log/redis")
EVENTS = {
    "+odown",
    "+elected-leader",
    "+promoted-slave",
    "+slave-reconf-done",
    "+switch-master",
    "+convert-to-slave",
}
PATIENCE = 0.5


def answer(stream: BinaryIO) -> Any:
    """One value of RESP2. Raises LookupError for an error, and for an answer that was cut off."""
    line = stream.readline().decode()
    kind, text = line[:1], line[1:].rstrip("\r\n")
    if not line.endswith("\r\n") or kind == "-":
        raise LookupError(text or "no answer")
    if kind == "$":
        return None if int(text) < 0 else stream.read(int(text) + 2)[:-2].decode()
    if kind == "*":
        return [answer(stream) for _ in range(max(0, int(text)))]
    return int(text) if kind == ":" else text


def ask(box: str, port: int, *words: str) -> Any:
    with socket.create_connection((BOXES[box], port), PATIENCE) as connection:
        connection.sendall(
            f"*{len(words)}\r\n".encode() + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words)
        )
        with connection.makefile("rb") as stream:
            return answer(stream)


def watched(box: str) -> dict[str, str]:
    """The master as the Sentinel of that box knows it."""
    flat = ask(box, SENTINEL, "SENTINEL", "MASTER", GROUP)
    return dict(zip(flat[::2], flat[1::2], strict=True))


def replication(box: str) -> dict[str, str]:
    lines = ask(box, REDIS, "INFO", "replication").splitlines()
    return dict(line.split(":", 1) for line in lines if ":" in line)


def master() -> str:
    """The box that all Sentinels name, once the others are its replicas. Raises LookupError or OSError until then."""
    named = set()
    for box in BOXES:
        told = watched(box)
        named.add(told["ip"])
        if told["flags"] != "master":
            raise LookupError(f"the Sentinel of {box} calls the master {told['flags']}")
    if len(named) > 1:
        raise LookupError(f"the Sentinels name {' and '.join(sorted(named))}")
    here = next(box for box, address in BOXES.items() if address in named)
    for box in BOXES:
        told = replication(box)
        role = (told["role"], told.get("master_host"))
        if role != (("master", None) if box == here else ("slave", BOXES[here])):
            raise LookupError(f"the Redis of {box} is {' '.join(map(str, role))}")
    return here


def formed() -> str:
    for box in BOXES:
        told = watched(box)
        known = (told["num-slaves"], told["num-other-sentinels"])
        if known != ("2", "2"):
            raise LookupError(f"the Sentinel of {box} knows {known[0]} replicas and {known[1]} other Sentinels")
        if replication(box).get("master_link_status", "up") != "up":
            raise LookupError(f"the Redis of {box} does not have yet what its master has")
    return master()


def wait_until_formed(seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while True:
        try:
            print("the master is", formed())
            return
        except (LookupError, OSError) as error:
            if time.monotonic() > deadline:
                sys.exit(f"after {seconds:g} s: {error}")
            time.sleep(0.25)


def story() -> list[str]:
    """What the Sentinels logged of the master, in order: the clock, whose log, what."""
    told = []
    for file in LOGS.glob("sentinel-?.log"):
        for line in file.read_text().splitlines():
            words = line.split()
            if len(words) > 6 and (words[6] in EVENTS or words[6:8] == ["+sdown", "master"]):
                told.append(f"{words[4]} {file.stem} {' '.join(words[6:])}")
    return sorted(told)


def lost() -> None:
    """What was acknowledged before Redis was asked must be there."""
    try:
        here = master()
    except (LookupError, OSError) as error:
        print(f"lost -1, window -1: {error}")
        return
    kept = [line.split() for file in KEPT.iterdir() for line in file.read_text().splitlines(True) if line[-1] == "\n"]
    there = set(ask(here, REDIS, "SMEMBERS", "writes"))
    missing = sorted((float(at), name) for at, name in kept if name not in there)
    window = missing[-1][0] - missing[0][0] if missing else 0.0
    print(f"lost {len(missing)}, window {window:.3f}: of {len(kept)} acknowledged writes, the master is {here}")
    if missing:
        print("the first:", *missing[0], "the last:", *missing[-1])
    print(*story(), sep="\n")


if __name__ == "__main__":
    {"formed": wait_until_formed, "lost": lost}[sys.argv[1]]()
