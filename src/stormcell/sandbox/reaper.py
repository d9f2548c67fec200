"""Kills sandboxes whose ttl passed, and those that wait in the pool of a dead process.

One small process per home, which outlives whoever made them.

It starts with the first sandbox, is alone by flock on `reaper.lock`, and leaves when nothing is left to watch.
It imports the standard library and a few small modules of ours only, so that it costs little to start and to keep.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

from stormcell.sandbox import lease as leases
from stormcell.sandbox.hostclock import boot_id, boottime_ns
from stormcell.sandbox.lease import Lease
from stormcell.sandbox.record import ID, Record, RecordTorn
from stormcell.sandbox.removal import remove

LOOK_EVERY = 1.0
IDLE_SECONDS = 30.0
LOG_MAX = 4 << 20

_DETACHED = 'log=$1; shift; "$@" </dev/null >>"$log" 2>&1 &'
_START = "import sys; sys.path.insert(0, sys.argv[1]); from stormcell.sandbox.reaper import main; main(sys.argv[2])"


def append_line(path: Path, line: str) -> None:
    """Add one line to a private log, on the disk when this returns."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, line.encode() + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def due(leases_by_name: dict[str, Lease | None], now_ns: int, boot: str) -> list[str]:
    """Whose time is over. No lease, or a torn one, is for gc to judge: the reaper only acts on a deadline it read."""
    return sorted(name for name, lease in leases_by_name.items() if lease and lease.left_seconds(now_ns, boot) <= 0)


def read_leases(sandboxes: Path) -> dict[str, Lease | None]:
    """The lease of every sandbox."""
    try:
        return {entry.name: leases.read(entry) for entry in sandboxes.iterdir() if ID.match(entry.name)}
    except FileNotFoundError:
        return {}


def left_waiting(folder: Path) -> bool:
    """Whether it waits for a process that is dead, and so for nobody.

    Read again after the owner was seen dead: before it died it may have handed the sandbox out to live on.
    """
    return all(_waits_for_the_dead(folder) for _ in range(2))


def _waits_for_the_dead(folder: Path) -> bool:
    try:
        record = Record.read(folder)
    except RecordTorn:
        return False
    return bool(record and record.state == "waiting" and record.owner and not record.owner.alive())


def reap(state: Path, log: Path) -> int:
    """Remove what is due now, with a line of evidence each in reaped.jsonl. The number of sandboxes that stay."""
    sandboxes = state / "sandboxes"
    known = read_leases(sandboxes)
    over = due(known, boottime_ns(), boot_id())
    left = [name for name in known if name not in over and left_waiting(sandboxes / name)]
    for name in [*over, *left]:
        lease = known[name]
        reason = f"its ttl of {lease.ttl_seconds if lease else 0:g} s passed"
        if name in left:
            reason = "the process in whose pool it waited is dead"
        try:
            evidence = remove(sandboxes / name, reason, only_overdue=name in over)
        except Exception:
            traceback.print_exc()  # into reaper.log; one bad folder must not keep the others alive
            continue
        if evidence is None or evidence.already_gone:
            continue
        append_line(log, json.dumps(evidence.as_dict()))
        if evidence.complete:
            known.pop(name)
    return len(known)


def _take(lock: int, patience: float) -> bool:
    """The lock, waiting a little: a starter that looks whether it is free holds it for a moment."""
    deadline = time.monotonic() + patience
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.02)


def watch(state: Path, *, idle_seconds: float = IDLE_SECONDS, look_every: float = LOOK_EVERY) -> None:
    """Reap until no sandbox was there for `idle_seconds`. Returns at once when another reaper is at work."""
    lock = os.open(state / "reaper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    log = state / "reaped.jsonl"
    try:
        while _take(lock, patience=1.0):
            os.truncate(lock, 0)
            os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
            last_seen = time.monotonic()
            while time.monotonic() - last_seen < idle_seconds and state.exists():
                if reap(state, log):
                    last_seen = time.monotonic()
                time.sleep(look_every)
            fcntl.flock(lock, fcntl.LOCK_UN)
            # A create that saw the lock held relies on us. Its record was there before it looked, so look once more.
            if not read_leases(state / "sandboxes"):
                return
    finally:
        os.close(lock)


def running(state: Path) -> bool:
    """Whether a reaper holds the lock of this home."""
    try:
        lock = os.open(state / "reaper.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except OSError:
        return True
    finally:
        os.close(lock)


def ensure(state: Path) -> bool:
    """Start a reaper unless one runs; call it after the lease is on the disk. True when one was started.

    The new process is a grandchild in its own session, so that neither the terminal nor the end of this process
    reaches it and no child is left to wait for.
    """
    if running(state):
        return False
    root = str(Path(__file__).parents[2])
    log = state / "reaper.log"
    with contextlib.suppress(OSError):
        if log.stat().st_size > LOG_MAX:
            log.unlink()
    subprocess.run(
        ["/bin/sh", "-c", _DETACHED, "sh", str(log), sys.executable, "-I", "-S", "-c", _START, root, str(state)],
        start_new_session=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        cwd="/", check=True, timeout=30,
    )  # fmt: skip
    return True


def main(state: str) -> None:
    """The process: nice, so that it does not slow the create that started it."""
    os.nice(5)
    os.umask(0o077)
    watch(Path(state))


if __name__ == "__main__":
    main(sys.argv[1])
