"""What marks, options and the ini file say. Imports nothing of the machinery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

MARK = (
    "stormcell(template, ttl, open_ports, raw, setup, fault, faults, on, experiment, seed, sealed, verdict, void): "
    "the machine of a test, faults around it, or an experiment that must survive"
)
VOID = ("fail", "skip")
MOST_READY = 16
VERDICTS = ("survived", "failed", "void", "unknown")
RUNS: pytest.StashKey[list[tuple[Any, Path]]] = pytest.StashKey()
"""Every run that an item made: the Result and the folder."""
_WANTED: Mapping[str, tuple[tuple[type, ...], str]] = {
    "template": ((str, Path), "a template's name, or a recipe's file relative to the test's"),
    "ttl": ((str, int, float), "seconds, or a duration like '10m'"),
    "open_ports": ((Mapping,), "a mapping of names to ports of the guest"),
    "raw": ((bool,), "True or False"),
    "setup": ((str, list, tuple), "shell text, or a list of it"),
    "fault": ((Mapping, str, object), "a fault's mapping with its kind"),
    "faults": ((Mapping,), "a mapping of names to faults"),
    "on": ((str,), "the name of the fixture whose machine the fault is for"),
    "experiment": ((str, Path), "an experiment's file, relative to the test's"),
    "seed": ((int,), "a whole number"),
    "sealed": ((bool,), "True or False, of an experiment"),
    "verdict": ((str, list, tuple), f"one or several of {', '.join(VERDICTS)}"),
    "void": ((str,), " or ".join(VOID)),
}


@dataclass(frozen=True)
class Marks:
    """All marks of an item, or of its module: for each word the nearest one counts."""

    words: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, node: pytest.Item | pytest.Collector) -> Marks:
        """Raises UsageError for a mark that is wrong."""
        words: dict[str, Any] = {}
        for mark in reversed(list(node.iter_markers("stormcell"))):
            _check_words(node, mark)
            words.update(mark.kwargs)
        if "fault" in words and "faults" in words:
            raise _wrong(node, "one of 'fault' and 'faults', and only one")
        return cls(words)

    @property
    def template(self) -> str | None:
        """None: the one of the session."""
        return str(self.words["template"]) if "template" in self.words else None

    @property
    def ports(self) -> Mapping[str, int]:
        """For `open_ports`."""
        return dict(self.words.get("open_ports") or {})

    @property
    def setup(self) -> tuple[str, ...]:
        """Commands that prepare a machine."""
        found = self.words.get("setup") or ()
        return (found,) if isinstance(found, str) else tuple(found)

    @property
    def faults(self) -> Any:
        """What `chaos` takes, or None."""
        return self.words.get("faults") or self.words.get("fault")

    @property
    def experiment(self) -> str | None:
        """Its file."""
        return str(self.words["experiment"]) if "experiment" in self.words else None

    @property
    def verdicts(self) -> tuple[str, ...]:
        """That let the test pass; empty means `survived`."""
        found = self.words.get("verdict") or ()
        return (found,) if isinstance(found, str) else tuple(found)

    def ttl(self) -> float:
        """In seconds. Raises UsageError."""
        from stormcell.spec.units import SECONDS, parse

        given = self.words.get("ttl", 600.0)
        if isinstance(given, int | float):
            return float(given)
        try:
            return parse(given, SECONDS, "a duration", "10m")
        except ValueError as error:
            raise pytest.UsageError(f"the mark stormcell(ttl=...): {error}") from error

    def void(self, config: pytest.Config) -> str:
        """`fail` or `skip`."""
        return str(self.words.get("void") or config.getoption("stormcell_void") or config.getini("stormcell_void"))


def _check_words(node: pytest.Item | pytest.Collector, mark: pytest.Mark) -> None:
    if mark.args:
        raise _wrong(node, f"it takes keywords alone: {', '.join(_WANTED)}")
    for word, given in mark.kwargs.items():
        if word not in _WANTED:
            raise _wrong(node, f"there is no '{word}'; there are {', '.join(_WANTED)}")
        kinds, what = _WANTED[word]
        if not isinstance(given, kinds) or (isinstance(given, bool) and bool not in kinds):
            raise _wrong(node, f"{word} is {what}, not {given!r}")
    verdicts = mark.kwargs.get("verdict") or ()
    for verdict in (verdicts,) if isinstance(verdicts, str) else verdicts:
        if verdict not in VERDICTS:
            raise _wrong(node, f"verdict is {_WANTED['verdict'][1]}, not {verdict!r}")
    if mark.kwargs.get("void", "fail") not in VOID:
        raise _wrong(node, f"void is {_WANTED['void'][1]}, not {mark.kwargs['void']!r}")


def check(item: pytest.Item) -> None:
    """All that can be said of an item's marks before it runs. Raises UsageError."""
    marks = Marks.of(item)
    if "ttl" in marks.words:
        marks.ttl()
    if marks.words.get("sealed") and marks.experiment is None:
        raise _wrong(item, "'sealed' is about an experiment; name its file with 'experiment'")
    if marks.experiment is None and not marks.faults:
        return
    from unittest import TestCase

    if not isinstance(item, pytest.Function) or (item.cls is not None and issubclass(item.cls, TestCase)):
        raise _wrong(
            item, "faults and experiments are for functions and methods that pytest calls; use stormcell.chaos"
        )


def _wrong(node: pytest.Item | pytest.Collector, what: str) -> pytest.UsageError:
    return pytest.UsageError(f"{node.nodeid}: the mark stormcell: {what}")


def beside(node: pytest.Item | pytest.Collector, name: str) -> str:
    """A path in a mark starts where the test's file is; a template's name stays as it is."""
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    return str(node.path.parent / name) if is_path else name


def default_template(config: pytest.Config) -> str:
    """The option's path starts in the working folder, the setting's in the root folder."""
    if given := config.getoption("stormcell_template"):
        return str(given)
    name = str(config.getini("stormcell_template"))
    return str(config.rootpath / name) if "/" in name or name.endswith((".yaml", ".yml")) else name


def patience(config: pytest.Config) -> float:
    """Seconds to wait for room. Raises UsageError."""
    given = config.getoption("stormcell_wait")
    try:
        return float(given if given is not None else config.getini("stormcell_wait"))
    except ValueError as error:
        raise pytest.UsageError(f"stormcell_wait is a number of seconds: {error}") from error


def ready_ahead(config: pytest.Config) -> int:
    """How many machines are kept ready. Raises UsageError."""
    given = config.getoption("stormcell_ready")
    try:
        number = int(given if given is not None else config.getini("stormcell_ready"))
    except ValueError as error:
        raise pytest.UsageError(f"stormcell_ready is a whole number: {error}") from error
    if not 0 <= number <= MOST_READY:
        raise pytest.UsageError(f"stormcell_ready is 0 to {MOST_READY}, not {number}")
    return number


def short_names(config: pytest.Config) -> bool:
    """Whether the fixtures have them."""
    return bool(config.getini("stormcell_short_names"))
