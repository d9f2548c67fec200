"""The process that answers the calls of everybody under a filter, and counts: hits by process, call and errno.

It takes newcomers at a socket (guest/seccomp.py is their side). What a newcomer does before it has become its program
goes on. When the fault is over and somebody still lives under the filter, a child lets all their calls go on until the
last of them has ended.
"""

from __future__ import annotations

import errno
import heapq
import json
import os
import random
import select
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, processes
from stormcell.guest.tools.seccomp import syscalls, unotify
from stormcell.guest.tools.seccomp.unotify import Call

AFTERWARDS = "/sys/fs/cgroup/stormcell/helpers"
MILLION = 1_000_000
_JOIN_S = 10.0
_SOON_MS = 1
_CREDENTIALS = struct.Struct("3i")


@dataclass
class Newcomer:
    """From its connection to the end of the last process below it. `listener`: -1 until it is taken out of it."""

    desk: socket.socket
    pid: int
    start_time: int
    comm: str
    pidfd: int
    until: float
    named: int = -1
    listener: int = -1
    arrived: bool = False

    def became(self) -> bool:
        """Has it executed its program? The socket was closed by that, at the latest."""
        if not self.arrived:
            try:
                self.arrived = self.desk.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                return False
            except OSError:
                self.arrived = True
            if self.arrived:
                self.desk.close()
        return self.arrived


class Notifier:
    """One fault. `run` is the process's whole life, `answer` serves questions from another thread."""

    def __init__(self, path: str, config: Mapping[str, str]) -> None:
        self._door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._door.bind(path)
        os.chmod(path, 0o600)
        self._door.listen(64)
        self._poll = select.poll()
        self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._lock = threading.Lock()
        self._config = dict(config)
        self._draw = random.Random(int(config["seed"]))
        self._numbers = syscalls.meant(config["call"].split(","), config["exact"] == "1")
        self._coming: list[Newcomer] = []
        self._trees: dict[int, Newcomer] = {}
        self._held: list[tuple[float, int, Call, int]] = []
        self._hits: Counter[tuple[int, str, str, str]] = Counter()
        self._totals = {"seen": 0, "acted": 0, "gone": 0}
        self._joined = 0
        self._on = False
        self._over: threading.Event | None = None

    def run(self) -> None:
        """Until the process is killed."""
        self._poll.register(self._door, select.POLLIN)
        self._poll.register(self._wake[0], select.POLLIN)
        while True:
            try:
                self._turn()
            except Exception:  # whatever one call or newcomer does, the others must not wait for ever
                time.sleep(0.001)
            if self._over is not None:
                self._hand_over(self._over)

    def _turn(self) -> None:
        for fd, event in self._poll.poll(self._patience()):
            if fd == self._door.fileno():
                self._welcome()
            elif fd == self._wake[0]:
                os.read(fd, 4096)
            elif fd in self._trees:
                self._serve(fd, event)
        for one in list(self._coming):
            self._receive(one)
        with self._lock:
            while self._held and (not self._on or self._held[0][0] <= time.monotonic()):
                _, _, call, number = heapq.heappop(self._held)
                self._hit(call, number) if self._on else unotify.answered(call, 0)

    def _patience(self) -> int | None:
        """Milliseconds until something is to be done unasked."""
        if self._coming:
            return _SOON_MS
        return max(0, int((self._held[0][0] - time.monotonic()) * 1000) + 1) if self._held else None

    def _welcome(self) -> None:
        desk, _ = self._door.accept()
        pid, uid, _ = _CREDENTIALS.unpack(desk.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        process = processes.look(pid)
        if uid != os.geteuid() or process is None:
            desk.close()
            return
        desk.setblocking(False)
        until = time.monotonic() + _JOIN_S
        one = Newcomer(desk, pid, process.start_time, process.comm, os.pidfd_open(pid), until)
        self._coming.append(one)
        desk.sendall(json.dumps({"calls": self._numbers}).encode() + b"\n")

    def _receive(self, one: Newcomer) -> None:
        """One step with a newcomer: its word, then its listener."""
        try:
            if one.named < 0:
                one.named = self._word(one)
            if one.named >= 0 and (fd := unotify.taken(one.pidfd, one.named)) is not None:
                self._coming.remove(one)
                os.close(one.pidfd)
                one.listener = fd
                self._trees[fd] = one
                self._joined += 1
                self._poll.register(fd, select.POLLIN)
                one.desk.sendall(b"in\n")
                return
            if time.monotonic() > one.until or (one.named >= 0 and self._left(one)):
                raise OSError(errno.ETIMEDOUT, "it did not come")
        except (OSError, ValueError):
            if one in self._coming:
                self._coming.remove(one)
                os.close(one.pidfd)
                one.desk.close()

    @staticmethod
    def _word(one: Newcomer) -> int:
        try:
            said = one.desk.recv(4096)
        except BlockingIOError:
            return -1
        named = int(json.loads(said)["listener"])
        one.desk.sendall(json.dumps({"go": named}).encode() + b"\n")
        return named

    @staticmethod
    def _left(one: Newcomer) -> bool:
        try:
            return one.desk.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False

    def _serve(self, fd: int, event: int) -> None:
        if not event & select.POLLIN:  # nobody lives under that filter any more
            self._poll.unregister(fd)
            os.close(fd)
            self._trees.pop(fd).desk.close()
            return
        call = unotify.received(fd)
        if call is None:
            return
        with self._lock:
            if not self._on or not self._trees[fd].became() or not self._meant():
                unotify.answered(call, 0)
                return
            number = getattr(errno, self._config["errno"]) if self._config["errno"] else 0
            if delay := float(self._config["delay"]):
                heapq.heappush(self._held, (time.monotonic() + delay, call.id, call, number))
            else:
                self._hit(call, number)

    def _meant(self) -> bool:
        """By rate, every and limit."""
        self._totals["seen"] += 1
        limit = int(self._config["limit"])
        if limit and self._totals["acted"] + len(self._held) >= limit:
            return False
        if every := int(self._config["every"]):
            return self._totals["seen"] % every == 0
        return self._draw.random() * MILLION < int(self._config["rate"])

    def _hit(self, call: Call, number: int) -> None:
        """Counted when the kernel took the answer."""
        who = _process(call.tid)
        if unotify.answered(call, number):
            what = errno.errorcode[number] if number else ""
            self._hits[(*who, syscalls.NAMES.get(call.number, str(call.number)), what)] += 1
            self._totals["acted"] += 1
        else:
            self._totals["gone"] += 1

    def answer(self, request: Mapping[str, Any]) -> Any:
        """`on`: begin or cease; `set`: other amounts; `retire`: cease, and let others go on. Then what there is."""
        with self._lock:
            self._config |= request.get("set", {})
            self._on = bool(request.get("on", self._on))
        if request.get("retire"):
            self._on, over = False, threading.Event()
            self._over = over
            os.write(self._wake[1], b"x")
            over.wait(_JOIN_S)
        elif request:
            os.write(self._wake[1], b"x")
        with self._lock:
            names = ("pid", "comm", "call", "errno")
            hits = [{**dict(zip(names, key, strict=True)), "count": n} for key, n in sorted(self._hits.items())]
            trees = [self._tree(one) for one in list(self._trees.values())]
            return {"on": self._on, "config": dict(self._config), "joined": self._joined, "trees": trees, "hits": hits,
                    "totals": {**self._totals, "held": len(self._held)}}  # fmt: skip

    @staticmethod
    def _tree(one: Newcomer) -> dict[str, Any]:
        now = processes.look(one.pid)
        alive = now is not None and now.start_time == one.start_time
        text = common.read_text(f"/proc/{one.pid}/status") if alive else None
        mode = next((line.split()[1] for line in (text or "").splitlines() if line.startswith("Seccomp:")), "")
        return {"pid": one.pid, "start_time": one.start_time, "comm": now.comm if now and alive else one.comm,
                "alive": alive, "filtered": mode == "2"}  # fmt: skip

    def _hand_over(self, over: threading.Event) -> None:
        """To a child that lets everything go on, when there is anybody left."""
        for _, _, call, _ in self._held:
            unotify.answered(call, 0)
        self._held.clear()
        if self._trees and os.fork() == 0:
            self._door.close()
            write_file(f"{AFTERWARDS}/cgroup.procs", "0")
            self._let_go()
        self._over = None
        over.set()
        time.sleep(_JOIN_S)  # we are about to be killed, and the listeners are the child's

    def _let_go(self) -> None:
        poll = select.poll()
        for fd in self._trees:
            poll.register(fd, select.POLLIN)
        while self._trees:
            for fd, event in poll.poll():
                if event & select.POLLIN:
                    if (call := unotify.received(fd)) is not None:
                        unotify.answered(call, 0)
                else:
                    poll.unregister(fd)
                    os.close(fd)
                    del self._trees[fd]
        os._exit(0)


def _process(tid: int) -> tuple[int, str]:
    """Of a thread that waits for us: its process and that one's command name."""
    text = common.read_text(f"/proc/{tid}/status") or ""
    fields = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    pid = int(fields.get("Tgid", tid))
    return pid, (common.read_text(f"/proc/{pid}/comm") or fields.get("Name", "")).strip()
