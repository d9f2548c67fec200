"""From a schedule to its moments: pure, so that a dry run shows when everything will happen."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from stormcell.spec.plan import Moment
from stormcell.spec.schedule import TURN_S, Schedule


def moments(schedule: Schedule, seed: str, in_place: Sequence[bool] = ()) -> tuple[Moment, ...]:
    """In order of time. `seed` decides what a schedule draws; `in_place[i]` says whether level i is reached by a
    change from the one before, or by an undo and a new act."""
    return tuple(
        moment.model_copy(update={"at_s": round(schedule.at + at, 6)})
        for at, moment in _relative(schedule, random.Random(seed), in_place)
    )


def ends_after(schedule: Schedule) -> float:
    """Seconds until the schedule has come to its end, at the latest."""
    length = 0.0
    if schedule.lasts is not None:
        length = schedule.lasts
    elif schedule.pulse is not None:
        length = (schedule.pulse.on + schedule.pulse.off) * schedule.pulse.times - schedule.pulse.off
    elif schedule.flap is not None:
        length = (schedule.flap.on[1] + schedule.flap.off[1]) * schedule.flap.times - schedule.flap.off[1]
    elif schedule.ramp is not None:
        length = schedule.ramp.each * len(schedule.ramp.through)
    elif schedule.random is not None:
        length = schedule.random.within
    return schedule.at + length


def _relative(schedule: Schedule, draw: random.Random, in_place: Sequence[bool]) -> Iterator[tuple[float, Moment]]:
    if schedule.pulse is not None:
        period = schedule.pulse.on + schedule.pulse.off
        spans = [(n * period, schedule.pulse.on) for n in range(schedule.pulse.times)]
    elif schedule.flap is not None:
        spans, now = [], 0.0
        for _ in range(schedule.flap.times):
            on, off = draw.uniform(*schedule.flap.on), draw.uniform(*schedule.flap.off)
            spans.append((now, on))
            now += on + off
    elif schedule.random is not None:
        each = schedule.random.lasts + 2 * TURN_S
        spare = max(0.0, schedule.random.within - each * schedule.random.times)
        starts = sorted(draw.uniform(0, spare) for _ in range(schedule.random.times))
        spans = [(start + n * each, schedule.random.lasts) for n, start in enumerate(starts)]
    elif schedule.ramp is not None:
        yield from _ramp(schedule.ramp.each, len(schedule.ramp.through), in_place)
        return
    elif schedule.lasts is not None:
        spans = [(0.0, schedule.lasts)]
    else:
        yield 0.0, Moment(at_s=0, do="apply")
        return
    for start, length in spans:
        yield start, Moment(at_s=0, do="apply", counted="start" if schedule.random is not None else "previous")
        yield start + length, Moment(at_s=0, do="undo")


def _ramp(each: float, levels: int, in_place: Sequence[bool]) -> Iterator[tuple[float, Moment]]:
    yield 0.0, Moment(at_s=0, do="apply")
    for level in range(1, levels):
        if in_place[level]:
            yield level * each, Moment(at_s=0, do="change", level=level)
        else:
            yield level * each, Moment(at_s=0, do="undo", level=level - 1)
            yield level * each, Moment(at_s=0, do="apply", level=level)
