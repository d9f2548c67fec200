"""What the fixtures do, with the machinery."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stormcell.engine.api import Outcome, run
from stormcell.engine.chaos import chaos
from stormcell.pytest_plugin.machines import MACHINES, Kept
from stormcell.pytest_plugin.room import Room
from stormcell.pytest_plugin.settings import Marks, beside, patience
from stormcell.sandbox.api import Sandbox
from stormcell.sandbox.templates import resolve
from stormcell.template.model import Progress, Template

_TEMPLATES: pytest.StashKey[dict[str, Template]] = pytest.StashKey()
_OUTCOME: pytest.StashKey[Outcome] = pytest.StashKey()
_ROOM: pytest.StashKey[Room] = pytest.StashKey()


def template_of(config: pytest.Config, named: str | Template) -> Template:
    """Found or built, once in this process. Raises as AsyncSandbox.create."""
    if isinstance(named, Template):
        return named
    known = config.stash.setdefault(_TEMPLATES, {})
    if named not in known:
        known[named] = asyncio.run(resolve(named, lambda progress: _building(config, progress)))
    return known[named]


def _building(config: pytest.Config, progress: Progress) -> None:
    say(config, f"template {progress.template}: {progress.text}")


def say(config: pytest.Config, text: str) -> None:
    """A line for whoever waits; a worker of xdist has no terminal, and its captured output is in the report."""
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    capture: Any = config.pluginmanager.getplugin("capturemanager")
    if reporter is None:
        return
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        reporter.ensure_newline()
        reporter.write_line(f"stormcell: {text}")


def _room(config: pytest.Config) -> Room:
    if _ROOM not in config.stash:
        config.stash[_ROOM] = Room(patience(config), lambda text: say(config, text))
    return config.stash[_ROOM]


@contextlib.contextmanager
def machine(request: pytest.FixtureRequest, what: str) -> Iterator[Sandbox]:
    """A restored machine, set up as the marks say. Killed at the end, and seen gone."""
    node, config = request.node, request.config
    marks = Marks.of(node)
    named = beside(node, marks.template) if marks.template else request.getfixturevalue("stormcell_template")
    template = template_of(config, named)
    room, memory = _room(config), template.shape.memory_mib << 20
    sandbox = room.make(
        memory,
        lambda: Sandbox.create(
            template,
            ttl_seconds=marks.ttl(),
            open_ports=marks.ports,
            raw=bool(marks.words.get("raw", False)),
            metadata={"test": node.nodeid, "fixture": what},
        ),
    )
    with _kept(config, room, Kept(what, node, sandbox, template.services)):
        for command in marks.setup:
            sandbox.exec(command, check=True)
        yield sandbox


@contextlib.contextmanager
def fork(request: pytest.FixtureRequest, name: str, warmed: object) -> Iterator[Sandbox]:
    """A child of the warmed machine. Killed at the end, and seen gone."""
    if not isinstance(warmed, Sandbox):
        raise pytest.UsageError(
            f"the fixture '{name}' gives a {type(warmed).__name__}, and `forked` needs a Sandbox to fork; return one, "
            "or set stormcell_short_names = false and redefine stormcell_warmed"
        )
    node, config = request.node, request.config
    kept = next((kept for kept in config.stash.get(MACHINES, []) if kept.sandbox is warmed), None)
    room = _room(config)
    ttl = Marks.of(node).ttl() if "ttl" in Marks.of(node).words else None
    child = room.make(
        0, lambda: warmed.fork(ttl_seconds=ttl, metadata={"test": node.nodeid, "fixture": "forked"})
    )  # fmt: skip
    with _kept(config, room, Kept("forked", node, child, kept.services if kept else ())):
        yield child


@contextlib.contextmanager
def _kept(config: pytest.Config, room: Room, kept: Kept) -> Iterator[None]:
    machines = config.stash.setdefault(MACHINES, [])
    machines.append(kept)
    try:
        yield
    finally:
        machines.remove(kept)
        evidence = kept.sandbox.kill()
        room.gone(kept.sandbox)
        if not evidence.complete:
            raise RuntimeError(f"something of the machine is left: {evidence.sentence()}")


def outcome_of(item: pytest.Item) -> Outcome:
    """Of the experiment that the item's mark names; it is run once."""
    if _OUTCOME not in item.stash:
        marks = Marks.of(item)
        if marks.experiment is None:
            raise pytest.UsageError(
                f"{item.nodeid}: there is no mark stormcell(experiment=FILE), so there is no outcome"
            )
        path = Path(os.path.relpath(item.path.parent / marks.experiment))
        with _room(item.config).promised():
            item.stash[_OUTCOME] = run(
                path, seed=int(marks.words.get("seed", 0)), on_build=lambda progress: _building(item.config, progress)
            )
    return item.stash[_OUTCOME]


@contextlib.contextmanager
def faults_around(item: pytest.Function) -> Iterator[None]:
    """In force while the test runs, in the machine that it asked for."""
    marks = Marks.of(item)
    given = {name: value for name, value in item.funcargs.items() if isinstance(value, Sandbox)}
    if (on := marks.words.get("on")) is not None:
        found = given.get(on)
    else:
        machines = list({id(value): value for value in given.values()}.values())
        found = machines[0] if len(machines) == 1 else None
    if found is None:
        raise pytest.UsageError(
            f"{item.nodeid}: the mark's fault needs one machine, and the test has "
            f"{', '.join(given) or 'none'}; ask for `sandbox` or `forked`, and say on='NAME' where there are several"
        )
    with chaos(found, marks.faults, question=f"Does {item.name} hold under it?"):
        yield
