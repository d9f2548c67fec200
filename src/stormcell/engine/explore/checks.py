"""What an exploration varies makes valid experiments, or the line that does not is named. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from stormcell.engine.explore.plans import variant
from stormcell.engine.explore.space import Case, Dimension, Space
from stormcell.engine.load import Loaded
from stormcell.spec.errors import SpecError
from stormcell.spec.expansion import BadPath

RULE = "a path leads to a field of the experiment, and every value makes a valid experiment"
CORNERS = 64
"""At most, of all harmless and harsh ends together; all harsh is the first."""
BEFORE = frozenset(
    ("name", "question", "template", "open_ports", "nodes", "setup", "load", "explore", "predict", "raw_state")
)
"""Fields that are over, or only said, at the instant from which all cases go on. Of a load its end is not."""
REMEDY = "write for example vary: {fault.delay: {from: 10ms, to: 1s}}"


def check_values(loaded: Loaded, space: Space) -> None:
    """Each path, each value of a list and each end of a range beside the harmless ones of the others; then the corners.

    Raises SpecError for the first that is wrong, with its line.
    """
    if not space.dimensions:
        return
    names = [dimension.name for dimension in space.dimensions]
    harmless = Case(0, places=tuple((name, 0.0) for name in names), faults=space.faults, loads=space.loads)
    if wrong(loaded, space, harmless):
        for dimension in space.dimensions:
            alone = replace(space, dimensions=(dimension,))
            _check(loaded, alone, harmless, dimension, next(_places(dimension))[1])
        checked(loaded, space, harmless)
    for dimension in space.dimensions:
        for place, key in _places(dimension):
            _check(loaded, space, harmless.moved(dimension.name, place), dimension, key)
        if _is_before(dimension.name):
            raise SpecError(
                f"explore.vary.{dimension.name}: it is done before the instant from which all cases go on",
                where=loaded.where(("explore", "vary", dimension.name)),
                rule="what varies is the fault, the probes, and the times from the act on",
                remedy="write one experiment for each of its values",
            )
    for corner in itertools.islice(itertools.product((1.0, 0.0), repeat=len(names)), CORNERS):
        checked(loaded, space, harmless.but(places=tuple(zip(names, corner, strict=True))))


def _is_before(path: str) -> bool:
    parts = path.split(".")
    return parts[0] in BEFORE and (parts[0], parts[-1]) != ("load", "until")


def checked(loaded: Loaded, space: Space, case: Case) -> Loaded:
    """The experiment of a case. Raises SpecError that says which values go together badly."""
    if what := wrong(loaded, space, case):
        values = ", ".join(f"{name} = {value}" for name, value in space.values(case).items())
        where = loaded.where(("explore", "vary"))
        raise SpecError(f"explore.vary: with {values}: {what}", where=where, rule=RULE, remedy=REMEDY)
    return variant(loaded, space, case)


def wrong(loaded: Loaded, space: Space, case: Case) -> str:
    """Why the values of a case make no experiment, if they make none."""
    try:
        variant(loaded, space, case)
    except BadPath as error:
        return str(error)
    except SpecError as error:
        return error.what
    return ""


def _places(dimension: Dimension) -> Iterator[tuple[float, str | int]]:
    """Of what is written in the file, with its key there; the harmless one is first."""
    if dimension.ends is not None:
        yield from ((0.0, "from"), (1.0, "to"))
    count = len(dimension.values)
    yield from (((number + 0.5) / count, number) for number in range(count))


def _check(loaded: Loaded, space: Space, case: Case, dimension: Dimension, key: str | int) -> None:
    if what := wrong(loaded, space, case):
        for same in ("experiment", *dimension.name.split(".")):  # the path says where it is
            what = what.removeprefix(f"{same}: ")
        where = loaded.where(("explore", "vary", dimension.name, key))
        raise SpecError(f"explore.vary.{dimension.name}: {what}", where=where, rule=RULE, remedy=REMEDY)
