"""Delay system calls: a program in the kernel chooses the calls, a tracer holds their threads."""

from __future__ import annotations

import signal
import struct
import time
from collections.abc import Iterable
from typing import Any

from stormcell.guest.tools import (
    background,
    bpf,
    bpf_config,
    bpf_load,
    common,
    delay_calls,
    targets,
    tracer,
)
from stormcell.guest.tools.tracer import Tracer

READY_S = 5.0
_NUMBER, _MEANING = struct.Struct("<I"), struct.Struct("<II")
_LATER_TOO = ("service", "cgroup", "user")


def apply(mark: str, delay: str, jitter: str, *given: str) -> dict[str, Any]:
    """Seize every thread of the target, then switch the program on. Seconds. Raises what `bpf apply` raises."""
    words = bpf.words_of(given)
    config = bpf_config.resolved(words, bpf.names_of("delay"))
    folder = bpf.loaded(mark, "delay", bpf.programs_of("delay", words))
    _write_numbers(folder, words["call"].split(","))
    by, what = words["by"], words["what"]
    holder = Tracer(lambda: _pids(by, what, config.tgids), float(delay), float(jitter), by in _LATER_TOO)
    signal.pthread_sigmask(signal.SIG_BLOCK, tracer.BLOCKED)  # before there is a second thread that could take it
    background.start(mark, holder.run, holder.answer)
    told = _ready(mark)
    process = common.get_mark(f"{mark}.background")
    config.tracer = int(process["pid"])
    return {**bpf.switch_on(mark, "delay", words, config), "tracer": told}


def _ready(mark: str) -> dict[str, Any]:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        told = background.ask(mark, {})
        if told is None:
            raise ValueError("the tracer ended at once")
        if told["ready"]:
            return dict(told)
        time.sleep(0.002)
    raise ValueError(f"the tracer does not have every thread of the target after {READY_S:g} s")


def _pids(by: str, what: str, found: dict[int, int]) -> Iterable[int]:
    if by not in _LATER_TOO:
        return list(found)
    try:
        return [process.pid for process in targets.find(by, what)]
    except (OSError, LookupError, ValueError):
        return []


def _write_numbers(folder: str, names: list[str]) -> None:
    with bpf.map_of(folder, "numbers", 4, _MEANING.size) as table:
        for name in names:
            place = delay_calls.NUMBER[name]
            for number, descriptor in delay_calls.GROUPS[place].numbers.items():
                table.put(_NUMBER.pack(number), _MEANING.pack(place, descriptor))


def change(mark: str, delay: str, jitter: str, *given: str) -> None:
    """Other amounts, in place."""
    bpf.change(mark, *given)
    if background.ask(mark, {"change": [float(delay), float(jitter)]}) is None:
        raise LookupError("the tracer of this fault does not run")


def show(mark: str, *given: str) -> dict[str, Any]:
    """What the program chose, and what the tracer held. `left`: is anything of the tracer there?"""
    told = bpf.show(mark, "delay", *given)
    numbers: list[int] = []
    if told["links"]:
        with bpf.map_of(bpf_load.place(mark), "numbers", 4, _MEANING.size) as table:
            numbers = sorted(_NUMBER.unpack(key)[0] for key in table.keys())  # noqa: SIM118 - no dict
    held = background.ask(mark, {})
    return {**told, "numbers": numbers, "tracer": held, "left": background.is_there(mark)}


def clear(mark: str) -> None:
    """No new delay, then no tracer: the kernel lets every thread go that it holds."""
    bpf.clear(mark)
    background.stop(mark)


def main(argv: list[str]) -> int:
    """`delay apply|change|show|clear`."""
    verbs: dict[str, common.Verb] = {"apply": apply, "change": change, "show": show, "clear": clear}
    return common.serve("delay", verbs, argv)
