"""Whole runs of the shipped template `base`, in a state of their own over the user's cache."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stormcell
from stormcell.engine.api import Outcome, judge_folder
from stormcell.sandbox.templates import resolve
from stormcell.spec.home import Home
from stormcell.template.model import Template

PROBE: dict[str, Any] = {"name": "alive", "command": {"run": "exit 0"}, "expect": {"exit_code": 0}}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.guest)


@pytest.fixture(scope="session")
def template() -> Template:
    return asyncio.run(resolve("base", None))


@pytest.fixture(scope="module", autouse=True)
def own_home(template, tmp_path_factory) -> Iterator[Home]:
    """Nothing may be left in it but runs."""
    root: Path = tmp_path_factory.mktemp("home")
    (root / "cache").symlink_to(Home.current().cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORMCELL_HOME", str(root))
        yield Home.current()
    sandboxes = root / "state" / "sandboxes"
    left = sorted(sandboxes.iterdir()) if sandboxes.exists() else []
    shutil.rmtree(root)
    assert left == []


@pytest.fixture
def outcome_of(template) -> Callable[..., Outcome]:
    """Run an experiment; whatever comes out, its folder judges the same again."""

    def run(fault: dict[str, Any], *probes: dict[str, Any], **more: Any) -> Outcome:
        experiment = {"name": "test", "steady_state": list(probes or [PROBE]), "fault": fault, **more}
        outcome = stormcell.run(experiment, template=template)
        assert judge_folder(outcome.folder) == outcome.result
        return outcome

    return run


def codes(outcome: Outcome) -> list[str]:
    """The codes of its reasons, the deciding one first."""
    return [reason.code for reason in outcome.result.reasons]
