"""From a campaign to its cells and their runs. Pure: the same file gives the same names and ids, in the same order."""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stormcell.spec.campaign import Campaign
from stormcell.spec.value import nearest

Path_ = tuple[str | int, ...]
_LONGEST = 64


class BadPath(ValueError):
    """A dotted path that leads nowhere; `at` is its place in the campaign."""

    def __init__(self, message: str, at: Path_) -> None:
        super().__init__(message)
        self.at = at


@dataclass(frozen=True)
class Axis:
    """One field that is varied. `places` says where in the campaign's file each value stands."""

    name: str
    """The shortest end of the path that no other axis has."""
    path: str
    labels: tuple[str, ...]
    values: tuple[Any, ...]
    places: tuple[Path_, ...]


@dataclass(frozen=True)
class Cell:
    """One variant of the experiment, as data."""

    name: str
    """`EXPERIMENT.AXIS-VALUE...`, with other characters than a name may have replaced."""
    at: Mapping[str, str]
    """The label of its value on each axis."""
    data: Mapping[str, Any]
    replaced: Mapping[Path_, Path_] = field(default_factory=dict)
    """Paths in the experiment whose value comes from the campaign, and their places in it."""

    @property
    def digest(self) -> str:
        """Of what is to be done: all but the name. Twelve hexadecimal digits."""
        kept = {key: value for key, value in self.data.items() if key != "name"}
        text = json.dumps(kept, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Execution:
    """One run of a cell."""

    cell: Cell
    seed: int
    repeat: int
    """From 1, among the runs of this cell with this seed."""

    @property
    def id(self) -> str:
        """Stable: it says what is run, with which seed, for which time."""
        return f"{self.cell.digest}-s{self.seed}-r{self.repeat}"


def axes(campaign: Campaign) -> tuple[Axis, ...]:
    """What is varied, in the order of the file; templates first."""
    matrix: dict[str, Any] = {"template": list(campaign.templates)} if campaign.templates else {}
    matrix |= campaign.matrix
    names = _short_names(list(matrix))
    found = []
    for path, values in matrix.items():
        base: Path_ = ("templates",) if path == "template" and campaign.templates else ("matrix", path)
        if isinstance(values, dict):
            labels, plain, keys = tuple(values), tuple(values.values()), tuple(values)
        else:
            labels, plain, keys = tuple(_label(v, path) for v in values), tuple(values), tuple(range(len(values)))
            if len(set(labels)) < len(labels):  # two templates of one name in different folders
                labels = tuple(str(value) for value in values)
        found.append(Axis(names[path], path, labels, plain, tuple((*base, key) for key in keys)))
    return tuple(found)


def cells(experiment: Mapping[str, Any], varied: Sequence[Axis]) -> tuple[Cell, ...]:
    """Every combination, the last axis moving fastest. Raises BadPath."""
    found: list[Cell] = []
    for choice in itertools.product(*(range(len(axis.values)) for axis in varied)):
        data: Mapping[str, Any] = experiment
        at, replaced = {}, {}
        for axis, index in zip(varied, choice, strict=True):
            place = resolve(experiment, axis.path, ("matrix", axis.path))
            data = with_value(data, place, axis.values[index])
            at[axis.name] = axis.labels[index]
            replaced[place] = axis.places[index]
        name = cell_name(str(experiment.get("name", "")), at)
        found.append(Cell(name, at, {**data, "name": name}, replaced))
    return _told_apart(found)


def executions(variants: Sequence[Cell], seeds: Sequence[int], repeats: int, base_seed: int = 0) -> list[Execution]:
    """Every run: first each cell once, then each a second time, so that a slow hour of the host falls on all alike."""
    pairs = [(seed, repeat) for repeat in range(1, repeats + 1) for seed in seeds or (base_seed + repeat - 1,)]
    numbered = [(seed, repeat if seeds else 1) for seed, repeat in pairs]
    return [Execution(cell, seed, repeat) for seed, repeat in numbered for cell in variants]


def resolve(experiment: Mapping[str, Any], path: str, at: Path_) -> Path_:
    """The keys of a dotted path; an entry of a list is named by its `name` or by its number from 0. Raises BadPath.

    The last key may be new (`fault.jitter`), and so may a mapping on the way (`recovery.within`): validation tells.
    """
    found: Path_ = ()
    node: Any = experiment
    for part in path.split("."):
        if isinstance(node, Mapping):
            found, node = (*found, part), node.get(part, {})
        elif isinstance(node, list | tuple):
            index = _index(node, part, path, at)
            found, node = (*found, index), node[index]
        else:
            raise BadPath(f"'{path}' leads nowhere: {'.'.join(map(str, found))} is {node!r}", at)
    return found


def with_value(data: Any, place: Path_, value: Any) -> Any:
    """A copy with one value replaced; what is not on the way is shared."""
    if not place:
        return value
    key, *rest = place
    if isinstance(key, int):
        return [with_value(item, tuple(rest), value) if index == key else item for index, item in enumerate(data)]
    return {**data, key: with_value(data.get(key, {}), tuple(rest), value)}


def cell_name(base: str, at: Mapping[str, str]) -> str:
    """A name that an experiment may have; a long one ends in a digest."""
    text = ".".join([base, *(f"{axis}-{label}" for axis, label in at.items())])
    name = re.sub(r"[^A-Za-z0-9_.-]+", "_", text)
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9]}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _told_apart(found: Sequence[Cell]) -> tuple[Cell, ...]:
    """Labels that differ only in what a name cannot hold get a number."""
    seen: dict[str, int] = {}
    apart = []
    for cell in found:
        count = seen[cell.name] = seen.get(cell.name, 0) + 1
        name = cell.name if count == 1 else f"{cell.name[: _LONGEST - 5]}-{count}"
        apart.append(Cell(name, cell.at, {**cell.data, "name": name}, cell.replaced))
    return tuple(apart)


def _index(node: Sequence[Any], part: str, path: str, at: Path_) -> int:
    named = {str(item.get("name")): index for index, item in enumerate(node) if isinstance(item, Mapping)}
    if part in named:
        return named[part]
    if part.isdecimal() and int(part) < len(node):
        return int(part)
    known = [name for name in named if name != "None"] or [str(index) for index in range(len(node))]
    raise BadPath(f"'{path}': there is no '{part}'; {nearest(part, known)}", at)


def _short_names(paths: Sequence[str]) -> dict[str, str]:
    def ends(path: str) -> Iterator[str]:
        parts = path.split(".")
        yield from (".".join(parts[-count:]) for count in range(1, len(parts) + 1))

    return {
        path: next(
            (end for end in ends(path) if not any(end in set(ends(other)) for other in paths if other != path)), path
        )
        for path in paths
    }


def _label(value: Any, path: str) -> str:
    if path == "template" and isinstance(value, str):
        return value.rpartition("/")[2].removesuffix(".yaml").removesuffix(".yml")
    return str(value).lower() if isinstance(value, bool) else str(value)
