"""The ladder: template, sandbox; warmed, forked; and an experiment's outcome."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from stormcell.pytest_plugin.settings import short_names

if TYPE_CHECKING:
    from stormcell.engine.api import Outcome
    from stormcell.sandbox.api import Sandbox
    from stormcell.template.model import Template


@pytest.fixture(scope="session")
def stormcell_template(request: pytest.FixtureRequest) -> Template:
    """The template of tests whose marks name none; built when it is missing or stale, by one worker for all."""
    from stormcell.pytest_plugin import work
    from stormcell.pytest_plugin.settings import default_template

    return work.template_of(request.config, default_template(request.config))


@pytest.fixture
def stormcell_sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A machine of the test's own, restored from the template; killed after the test."""
    from stormcell.pytest_plugin import work

    with work.machine(request, "sandbox") as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def stormcell_warmed(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A machine for the whole module, prepared once: by `setup` of the module's mark, or by a fixture over this one."""
    from stormcell.pytest_plugin import work

    with work.machine(request, "warmed") as sandbox:
        yield sandbox


@pytest.fixture
def stormcell_forked(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """A fork of `warmed` at the instant in which the module's preparation ended; killed after the test."""
    from stormcell.pytest_plugin import work

    name = "warmed" if short_names(request.config) else "stormcell_warmed"
    with work.fork(request, name, request.getfixturevalue(name)) as sandbox:
        yield sandbox


@pytest.fixture
def stormcell_outcome(request: pytest.FixtureRequest) -> Outcome:
    """What came of the experiment that the test's mark names."""
    from stormcell.pytest_plugin import work

    return work.outcome_of(request.node)
