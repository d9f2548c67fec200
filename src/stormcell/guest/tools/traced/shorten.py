"""Short reads and writes: a tracer lowers the number of bytes that a call asks for, before the kernel sees it."""

from __future__ import annotations

import os
import random
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stormcell.guest.tools import background, common, processes, targets
from stormcell.guest.tools.bpf import tool as bpf
from stormcell.guest.tools.traced import ptrace, seizer
from stormcell.guest.tools.traced.seizer import Seizer

NAMES = {0: "read", 17: "read", 1: "write", 18: "write"}
"""read, pread64, write, pwrite64 on x86_64: the number of bytes is their third argument."""
QUIET_S = 0.5


class Shortener(Seizer):
    """`words` are the orders as a plan has them."""

    def __init__(self, find: Callable[[], Iterable[int]], words: dict[str, str], rescan: bool) -> None:
        super().__init__(find, rescan, every_call=True)
        self.words = words
        self.resting = False
        self._path = os.path.realpath(words["path"])
        self._under_way: dict[int, tuple[str, int, int]] = {}
        self._hits: dict[tuple[int, str, bool], int] = {}
        self._chosen = self._matched = 0

    def stopped(self, tid: int, number: int) -> None:
        """At a system call, or with a signal that goes through."""
        if number == ptrace.SYSCALL_STOP:
            call = ptrace.call(tid)
            if call is not None and call.entry:
                self._begins(tid, call)
            elif call is not None and tid in self._under_way:
                self._ends(tid, call.result)
            number = 0
        ptrace.proceed(tid, number, every_call=True)

    def gone(self, tid: int) -> None:
        """Nothing is under way any more."""
        self._under_way.pop(tid, None)

    def _begins(self, tid: int, call: ptrace.Call) -> None:
        name = NAMES.get(call.number, "")
        if self.resting or not call.native or name not in self.words["operation"].split(",") or call.arguments[2] < 2:
            return
        if not self._is_meant(tid, call.arguments[0]):
            return
        self._matched += 1
        every, limit = int(self.words["every"]), int(self.words["limit"])
        act = self._matched % every == 0 if every else random.random() * 1e6 < int(self.words["rate"])
        if not act or (limit and self._chosen >= limit):
            self._count(tid, name, False)
            return
        fewer = max(1, min(call.arguments[2] - 1, call.arguments[2] * int(self.words["share"]) // 1_000_000))
        self._chosen += 1
        self._under_way[tid] = (name, call.arguments[2], fewer)
        ptrace.set_third_argument(tid, fewer)

    def _ends(self, tid: int, result: int) -> None:
        name, asked, fewer = self._under_way.pop(tid)
        ptrace.set_third_argument(tid, asked)  # a program may count on what the kernel leaves alone
        short = result == fewer
        self._chosen -= not short
        self._count(tid, name, short)

    def _is_meant(self, tid: int, fd: int) -> bool:
        try:
            link = f"/proc/{tid}/fd/{fd}"
            name = os.readlink(link).removesuffix(" (deleted)")
            if name != self._path and not name.startswith(f"{self._path.rstrip('/')}/"):
                return False
            return stat.S_ISREG(os.stat(link).st_mode)
        except OSError:
            return False

    def _count(self, tid: int, name: str, short: bool) -> None:
        key = (seizer.status(tid, "Tgid") or tid, name, short)
        self._hits[key] = self._hits.get(key, 0) + 1

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """For `background`: other amounts, an end to all of it, or what was done."""
        if "change" in request:
            self.words = {**self.words, **request["change"]}
        if "rest" in request:
            self.resting = True
        hits = [{"pid": pid, "comm": _comm(pid), "call": name, "errno": "hit" if short else "", "count": count}
                for (pid, name, short), count in sorted(self._hits.items())]  # fmt: skip
        return {
            "ready": self.ready,
            "refused": sorted(self.refused),
            "config": self.words,
            "under_way": len(self._under_way),
            "threads": len(self.traced),
            "held": sum(seizer.status(tid, "TracerPid") == os.getpid() for tid in list(self.traced)),
            "acted": sum(count for (_, _, short), count in self._hits.items() if short),
            "hits": hits,
        }


def _comm(pid: int) -> str:
    process = processes.look(pid)
    return process.comm if process else ""


def start(mark: str, *given: str) -> dict[str, Any]:
    """Trace every thread of the target. Raises LookupError and OSError for a target or path that is not there."""
    seizer.only_here()
    words = bpf.words_of(given)
    by, what = words["by"], words["what"]
    os.stat(words["path"])
    found = [process.pid for process in targets.find(by, what)]
    if by == "service":
        os.stat(processes.service_folder(what))
    if not found and by not in seizer.LATER_TOO:
        raise LookupError(f"there is no process of {by} '{what}'")
    holder = Shortener(seizer.finder(by, what, found), words, by in seizer.LATER_TOO)
    return seizer.start(mark, holder, holder.answer)


def change(mark: str, *given: str) -> None:
    """Other amounts, in place."""
    if background.ask(mark, {"change": bpf.words_of(given)}) is None:
        raise LookupError("the tracer of this fault does not run")


def show(mark: str) -> dict[str, Any]:
    """What it does and did; `left`: is anything of it there?"""
    return {"tracer": background.ask(mark, {}), "left": background.is_there(mark)}


def stop(mark: str) -> None:
    """No further change, the calls that are under way end, then the tracer does; the kernel lets its threads go."""
    deadline = time.monotonic() + QUIET_S
    told = background.ask(mark, {"rest": True}) if background.is_there(mark) else None
    while told and told["under_way"] and time.monotonic() < deadline:
        time.sleep(0.005)
        told = background.ask(mark, {})
    background.stop(mark)


def main(argv: list[str]) -> int:
    """`shorten start|change|show|stop`."""
    verbs: dict[str, common.Verb] = {"start": start, "change": change, "show": show, "stop": stop}
    return common.serve("shorten", verbs, argv)
