"""Whole runs of the shipped template `base`, in a state of their own over the user's cache."""

from collections.abc import Callable
from typing import Any

import pytest

import stormcell
from stormcell.engine.api import Outcome, judge_folder

PROBE: dict[str, Any] = {"name": "alive", "command": {"run": "exit 0"}, "expect": {"exit_code": 0}}


@pytest.fixture(scope="module", autouse=True)
def _in_own_home(own_home) -> None:
    """Every run of these tests."""


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
