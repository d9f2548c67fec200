"""The same fixtures by short names. A fixture of a project's own with such a name hides ours, and nothing breaks.

But for `warmed`, which is made to be redefined, no fixture of ours asks for another one by its short name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from stormcell.engine.api import Outcome
    from stormcell.sandbox.api import Sandbox
    from stormcell.template.model import Template


@pytest.fixture(scope="session")
def template(stormcell_template: Template) -> Template:
    """The template of tests whose marks name none."""
    return stormcell_template


@pytest.fixture
def sandbox(stormcell_sandbox: Sandbox) -> Sandbox:
    """A microVM of the test's own, restored from the template; killed after the test."""
    return stormcell_sandbox


@pytest.fixture(scope="module")
def warmed(stormcell_warmed: Sandbox) -> Sandbox:
    """A microVM for the whole module; redefine it to prepare it: `def warmed(warmed): ...; return warmed`."""
    return stormcell_warmed


@pytest.fixture
def forked(stormcell_forked: Sandbox) -> Sandbox:
    """A fork of `warmed`, for one test."""
    return stormcell_forked


@pytest.fixture
def outcome(stormcell_outcome: Outcome) -> Outcome:
    """What came of the experiment that the test's mark names."""
    return stormcell_outcome
