"""Delay system calls: a program in the kernel chooses the calls, a tracer holds their threads."""

from __future__ import annotations

import struct
from typing import Any

from stormcell.guest.tools import background, common
from stormcell.guest.tools.bpf import config as bpf_config
from stormcell.guest.tools.bpf import delays, loader
from stormcell.guest.tools.bpf import tool as bpf
from stormcell.guest.tools.traced import seizer
from stormcell.guest.tools.traced.tracer import Tracer

_NUMBER, _MEANING = struct.Struct("<I"), struct.Struct("<II")


def apply(mark: str, delay: str, jitter: str, *given: str) -> dict[str, Any]:
    """Seize every thread of the target, then switch the program on. Seconds. Raises what `bpf apply` raises."""
    seizer.only_here()
    words = bpf.words_of(given)
    config = bpf_config.resolved(words, bpf.names_of("delay"))
    folder = bpf.loaded(mark, "delay", bpf.programs_of("delay", words))
    _write_numbers(folder, words["call"].split(","))
    by, what = words["by"], words["what"]
    holder = Tracer(seizer.finder(by, what, config.tgids), float(delay), float(jitter), by in seizer.LATER_TOO)
    told = seizer.start(mark, holder, holder.answer)
    process = common.get_mark(f"{mark}.background")
    config.tracer = int(process["pid"])
    return {**bpf.switch_on(mark, "delay", words, config), "tracer": told}


def _write_numbers(folder: str, names: list[str]) -> None:
    with bpf.map_of(folder, "numbers", 4, _MEANING.size) as table:
        for name in names:
            place = delays.NUMBER[name]
            for number, descriptor in delays.GROUPS[place].numbers.items():
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
        with bpf.map_of(loader.place(mark), "numbers", 4, _MEANING.size) as table:
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
