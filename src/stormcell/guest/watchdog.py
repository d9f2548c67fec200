"""Undoes every fault from its receipt when the runner dies, or when the ttl has passed.

A process of its own, outside the runner's cgroup, armed before the first act. It needs neither disk nor network.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import sys
import time
from typing import Any

from stormcell.guest import readings
from stormcell.guest.lifeline import Lifeline
from stormcell.guest.offspring import keep_only
from stormcell.guest.running import Runnery
from stormcell.guest.trees import Cgroup

CGROUP = "/sys/fs/cgroup/stormcell/watchdog"
REPORT = "recovered.jsonl"
DEATH_S = 0.5
"""Left to the runner's children, which undo what they began when they see it gone."""


class Watchdog:
    """The runner's end of it."""

    def __init__(self, ttl: float) -> None:
        """Armed when this returns. `ttl` in seconds. Raises OSError."""
        runner = os.pidfd_open(os.getpid())
        read, write = os.pipe2(os.O_CLOEXEC)
        self._disarm, disarm = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            _live(runner, ttl, disarm.fileno(), write)
        os.close(runner)
        disarm.close()
        os.close(write)
        self.notice = read
        os.read(read, 1)  # it stands

    def disarm(self) -> None:
        """Nothing is left to undo: let it go, and see it gone."""
        try:
            self._disarm.send(b".", socket.MSG_NOSIGNAL)
        except OSError:  # it has done its work
            pass
        os.waitpid(self.pid, 0)
        self._disarm.close()
        os.close(self.notice)


def pids() -> list[int]:
    """Of all that are armed."""
    return Cgroup(CGROUP).pids() if os.path.isdir(CGROUP) else []


def _live(runner: int, ttl: float, disarm: int, notice: int) -> None:
    try:
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.set_wakeup_fd(-1)
        _apart()
        keep_only(runner, disarm, notice)
        os.write(notice, b".")
        poll = select.poll()
        for fd in (runner, disarm):
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(max(0.0, ttl) * 1000)}
        if disarm in ready and _said(disarm):
            return
        why = "runner_died" if ready else "ttl"
        if why == "runner_died":
            time.sleep(DEATH_S)
        done = undo_everything(why)
        if why == "ttl":
            os.write(notice, json.dumps(done).encode() + b"\n")
    finally:
        os._exit(0)


def _said(disarm: int) -> bool:
    """A byte means "disarmed"; the mere end of the connection is the end of the runner."""
    try:
        return os.read(disarm, 1) != b""
    except OSError:
        return False


def _apart() -> None:
    """Out of the runner's cgroup, which is killed with it. The runner's OOM score is inherited."""
    try:
        os.makedirs(CGROUP, exist_ok=True) if os.path.isdir(os.path.dirname(CGROUP)) else None
        with open(f"{CGROUP}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")
    except OSError:
        pass


def undo_everything(why: str) -> list[dict[str, Any]]:
    """Every receipt, the latest first. What was done is appended to the report beside the receipts."""
    done = []
    run_all = Runnery(Lifeline(None)).run_all
    for fault in readings.receipts_there():
        try:
            ok, outputs = readings.undo_from_receipt(fault, run_all)
        except FileNotFoundError:  # undone by somebody else meanwhile
            continue
        except (OSError, ValueError) as error:
            done.append({"fault": fault, "recovered_by": why, "ok": False, "text": str(error)})
            continue
        done.append({"fault": fault, "recovered_by": why, "ok": ok, "outputs": outputs})
    path = os.path.join(os.path.dirname(readings.receipt_path("x")), REPORT)
    if done:
        with open(path, "a", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in done)
    return done


def report() -> list[dict[str, Any]]:
    """What watchdogs have undone in this guest."""
    path = os.path.join(os.path.dirname(readings.receipt_path("x")), REPORT)
    try:
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def main(argv: list[str]) -> int:
    """`watchdog`: prints what watchdogs have undone, and the receipts that are still there."""
    sys.stdout.write(json.dumps({"recovered": report(), "receipts": readings.receipts_there()}) + "\n")
    return 0
