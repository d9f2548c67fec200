"""Rules about time: was anybody looking while a fault was in force, and was it so for as long as asked?"""

from __future__ import annotations

import math
from collections.abc import Iterator

from stormcell.judge.case import Case
from stormcell.judge.wording import seconds
from stormcell.spec.receipt import Held

ENOUGH = 0.5
"""A level, or cycle, that was in force for less than this share of what was asked makes the run void."""
LONGER, LONGER_S = 1.2, 0.25
"""One that was in force for so many times as long, and so many seconds longer, is told."""
MOST_NAMED = 5


def missed(case: Case) -> Iterator[str]:
    """Of a fault with a schedule: some probe in the guest must have looked while it was in force."""
    looks = [(_time(e.get("began")), _time(e.get("t"))) for e in case.of("probe", "guest") if e.get("phase") == "under"]
    for fault, _ in case.begun:
        if not case.plan.faults[fault].moments or not looks:
            continue
        ends = [_time(e.get("until", e.get("at"))) for e in case.of("undone", "guest") if e.get("fault") == fault]
        acts = [e for e in case.of("applied", "guest") if e.get("fault") == fault and e.get("ok")]
        spans = [
            (at, min([end for end in ends if end >= at], default=math.inf))
            for at in (_time(e.get("since", e.get("at"))) for e in acts)
        ]
        if spans and not any(began < end and at < ended for began, ended in looks for at, end in spans):
            yield f"no probe in the guest looked while {case.called(fault)} was in force; measure for longer"


def too_short(case: Case) -> Iterator[str]:
    """In a run that was not ended early, every level and cycle was in force for at least ENOUGH of what was asked."""
    if case.stops:
        return
    for fault, receipt in case.begun:
        short = [held for held in receipt.held if held.asked_s and (held.had_s or 0.0) < held.asked_s * ENOUGH]
        for held in short[:MOST_NAMED]:
            had = "never" if held.had_s is None else f"for {seconds(held.had_s)}"
            yield f"{case.called(fault)}, {_which(held)}, was {had} in force; {seconds(held.asked_s or 0)} were asked"
        if len(short) > MOST_NAMED:
            yield f"{case.called(fault)}: {len(short) - MOST_NAMED} more were in force for far less than asked"


def longer(case: Case) -> Iterator[str]:
    """A sentence for each fault that was in force for notably longer than asked: acts and readings take time."""
    for fault, receipt in case.begun:
        cycles = receipt.held
        if cycles and cycles[-1].level:
            cycles = cycles[:-1]  # a ramp keeps its last value until the undo step
        over = [held for held in cycles if held.asked_s and held.had_s and held.had_s > _notable(held.asked_s)]
        if over:
            most = max(over, key=lambda held: (held.had_s or 0) / (held.asked_s or 1))
            count = f"{len(over)} of {len(receipt.held)} times" if len(receipt.held) > 1 else "once"
            yield (
                f"{case.called(fault)} was longer in force than asked ({count}; {_which(most)}: asked "
                f"{seconds(most.asked_s or 0)}, had {seconds(most.had_s or 0)}): acts and readings take their time."
            )


def _notable(asked: float) -> float:
    return max(asked * LONGER, asked + LONGER_S)


def _which(held: Held) -> str:
    return held.level or f"time {held.cycle + 1}"


def _time(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
