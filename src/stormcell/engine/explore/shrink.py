"""A failing case becomes a smaller one that fails alike: fewer faults and loads, weaker, later, shorter. Pure.

`shrink` asks; who carries it out answers. A step is kept only when its run failed for the same reason; so what is left
is a case that failed itself, not a guess. Greedy: one kind of step after the other, until none helps.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from stormcell.engine.explore.space import ENDLESS, Case, Space

HALVES = 5
"""Steps of a bisection, at most: 1/32 of the way."""
NOISE_HALVES = 20
LEAST_S = 0.05


@dataclass(frozen=True)
class Step:
    """A smaller case to be tried. `text` says in what it is smaller."""

    case: Case
    text: str


Asking = Generator[Step, bool, Case]
Mover = Callable[[Case, float], Case]


def shrink(space: Space, failing: Case, disturbances: int = ENDLESS) -> Asking:
    """Yields steps, is sent whether each still failed, returns the smallest case.

    `disturbances`: how many the failing run had.
    """
    case = failing
    while True:
        before = case
        case = yield from _fewer_faults(case)
        case = yield from _fewer_loads(space, case)
        case = yield from _less_noise(case, disturbances)
        for dimension in space.dimensions:
            case = yield from _weaker(case, dimension.name, len(dimension.values))
        case = yield from _later(space, case)
        if space.lasts:
            case = yield from _shorter(case)
        if case == before:
            return case


def _fewer_faults(case: Case) -> Asking:
    for name in case.faults:
        kept = tuple(fault for fault in case.faults if fault != name)
        if (kept or case.noise) and (yield Step(case.but(faults=kept), f"without the fault '{name}'")):
            case = case.but(faults=kept)
    return case


def _fewer_loads(space: Space, case: Case) -> Asking:
    for name in case.loads:
        kept = tuple(load for load in case.loads if load != name)
        if (yield Step(case.but(loads=kept), f"without the load '{name}'")):
            case = case.but(loads=kept)
    for name in case.loads:
        if name in case.brief:
            continue
        brief = tuple(load for load in case.loads if load == name or load in case.brief)
        if (yield Step(case.but(brief=brief), f"the load '{name}' only up to the act")):
            case = case.but(brief=brief)
            continue
        undone = tuple(load for load in case.loads if load == name or load in case.undone)
        longer = name in space.lasting and name not in case.undone
        if longer and (yield Step(case.but(undone=undone), f"the load '{name}' only up to the undo")):
            case = case.but(undone=undone)
    return case


def _less_noise(case: Case, disturbances: int) -> Asking:
    """The shortest stretch of disturbances, first from its end, then from its beginning."""
    if not case.noise:
        return case
    if case.faults and (yield Step(case.but(noise=False), "without schedule noise")):
        return case.but(noise=False, first=0, last=ENDLESS)
    low, high = case.first, min(case.last, disturbances)
    for _ in range(NOISE_HALVES):  # the fewest from the beginning
        middle = (low + high) // 2
        if middle in (low, high):
            break
        if (yield Step(case.but(last=middle), f"only the first {middle} disturbances")):
            case, high = case.but(last=middle), middle
        else:
            low = middle
    low, high = case.first, min(case.last, disturbances)
    for _ in range(NOISE_HALVES):  # the latest beginning
        middle = (low + high + 1) // 2
        if middle in (low, high):
            break
        if (yield Step(case.but(first=middle), f"without the first {middle} disturbances")):
            case, low = case.but(first=middle), middle
        else:
            high = middle
    return case


def _weaker(case: Case, name: str, values: int) -> Asking:
    """Towards 0, the harmless end: the end itself, then by halves; a list value by value."""
    place = case.place(name)
    if values:
        for index in range(min(int(place * values), values - 1)):
            weaker = case.moved(name, (index + 0.5) / values)
            if (yield Step(weaker, f"{name} weaker")):
                return weaker
        return case
    if place <= 0:
        return case
    if (yield Step(case.moved(name, 0.0), f"{name} at its harmless end")):
        return case.moved(name, 0.0)
    return (yield from _halved(case, 0.0, place, lambda one, at: one.moved(name, at), f"{name} weaker", 1 / 2**HALVES))


def _later(space: Space, case: Case) -> Asking:
    if space.window is None:
        return case
    end = space.window[1]
    if end - case.at < LEAST_S:
        return case

    def moved(one: Case, at: float) -> Case:
        return one.but(at=round(at, 3))

    return (yield from _halved(case, end, case.at, moved, "the act later", LEAST_S))


def _shorter(case: Case) -> Asking:
    """`settle` and `hold`, and with them the time that the loads have."""
    if case.length <= 0:
        return case
    if (yield Step(case.but(length=0.0), "without any settling and holding")):
        return case.but(length=0.0)
    return (yield from _halved(case, 0.0, case.length, lambda one, at: one.but(length=at), "shorter", 1 / 2**HALVES))


def _halved(case: Case, good: float, bad: float, moved: Mover, text: str, least: float) -> Asking:
    """Between a place that need not fail and one that does, nearer and nearer to the first."""
    for _ in range(HALVES):
        middle = (good + bad) / 2
        if abs(middle - bad) < least:
            break
        if (yield Step(moved(case, middle), text)):
            case, bad = moved(case, middle), middle
        else:
            good = middle
    return case
