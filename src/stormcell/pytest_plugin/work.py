"""What the fixtures do, with the machinery."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stormcell.engine.api import Outcome, run
from stormcell.engine.chaos import chaos
from stormcell.engine.sealed.api import run_sealed
from stormcell.pytest_plugin.machines import MACHINES, Kept, pool_of
from stormcell.pytest_plugin.room import Room
from stormcell.pytest_plugin.settings import Marks, beside, patience, ready_ahead
from stormcell.sandbox.api import Sandbox
from stormcell.sandbox.templates import resolve
from stormcell.spec.errors import NotSurvived
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
    pool = pool_of(config, template, what, ready_ahead(config)) if what == "sandbox" else None
    create = pool.create if pool else functools.partial(Sandbox.create, template)
    sandbox = room.make(
        memory,
        lambda: create(
            ttl_seconds=marks.ttl(),
            open_ports=marks.ports,
            raw=bool(marks.words.get("raw", False)),
            metadata={"test": node.nodeid, "fixture": what},
        ),
    )
    with _kept(config, room, Kept(what, node, sandbox, template)):
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
    if kept is not None and kept.template is not None:
        pool_of(config, kept.template, "forked", ready_ahead(config))  # a fork finds its processes by itself
    room = _room(config)
    ttl = Marks.of(node).ttl() if "ttl" in Marks.of(node).words else None
    child = room.make(
        0, lambda: warmed.fork(ttl_seconds=ttl, metadata={"test": node.nodeid, "fixture": "forked"})
    )  # fmt: skip
    with _kept(config, room, Kept("forked", node, child, kept.template if kept else None)):
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
            perform: Callable[..., Outcome] = run_sealed if marks.words.get("sealed") else run
            item.stash[_OUTCOME] = perform(
                path, seed=int(marks.words.get("seed", 0)), on_build=lambda progress: _building(item.config, progress)
            )
    return item.stash[_OUTCOME]


@contextlib.contextmanager
def as_marked(item: pytest.Function) -> Iterator[None]:
    """The experiment of the mark first; its faults in force around the block. What is said of them has no traceback."""
    marks, around = Marks.of(item), None
    try:
        if marks.experiment is not None:
            outcome_of(item).check(*marks.verdicts)
        if marks.faults:
            around = chaos(_target(item, marks), marks.faults, question=f"Does {item.name} hold under it?")
        with around or contextlib.nullcontext():
            yield
    except NotSurvived as error:
        ours = [around.result] if around else []
        if _OUTCOME in item.stash:
            ours.append(item.stash[_OUTCOME].result)
        error.of_mark = any(error.result is result for result in ours)
        raise


def _target(item: pytest.Function, marks: Marks) -> Sandbox:
    """The machine that the test asked for. Raises UsageError unless there is one."""
    given = {name: value for name, value in item.funcargs.items() if isinstance(value, Sandbox)}
    if (on := marks.words.get("on")) is not None:
        found = [given[on]] if on in given else []
    else:
        found = list({id(value): value for value in given.values()}.values())
    if len(found) != 1:
        raise pytest.UsageError(
            f"{item.nodeid}: the mark's fault needs one machine, and the test has {', '.join(given) or 'none'}; "
            "ask for `sandbox` or `forked`, and say on='NAME' where there are several"
        )
    return found[0]
