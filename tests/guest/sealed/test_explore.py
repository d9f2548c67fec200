"""Exploring in real machines: seeds alone break nothing, and what breaks is made smaller and repeated."""

import asyncio
from typing import Any

import pytest

from stormcell.engine.explore.run import explore
from stormcell.engine.load import load_mapping
from stormcell.spec.home import Home
from stormcell.template.sealed import build_sealed
from stormcell.template.store import find

LATE: dict[str, Any] = {
    "name": "late",
    "template": "base",
    "steady_state": [
        {"name": "echo", "command": {"run": "ping -c 1 -W 1 -q 127.0.0.1"}, "expect": {"exit_code": 0}},
    ],
    "fault": {"kind": "net.delay", "device": "lo", "delay": "10ms"},
    "explore": {"vary": {"fault.delay": ["1ms", "10ms", "800ms"]}, "when": {"from": "0s", "to": "2s"}},
}


@pytest.fixture(scope="module")
def home(own_home: Home) -> Home:
    asyncio.run(build_sealed(find("base", own_home), home=own_home))
    return own_home


def explored(experiment, home, into, **more):
    async def perform():
        template = await build_sealed(find("base", home), home=home)
        return await explore(load_mapping(experiment), template, home=home, into=into, **more)

    return asyncio.run(perform())


def test_cases_of_other_seeds_survive_what_the_first_survived(home, tmp_path):
    """What a machine becomes by its seed (its ports, its names) is not what a fault left behind."""
    harmless = {**LATE, "explore": {"vary": {"fault.delay": ["1ms", "10ms"]}}}
    found = explored(harmless, home, tmp_path, runs=3, jobs=2)
    assert (found.verdict, found.runs, found.why_nothing) == ("survived", 3, "")
    assert found.first is None, found.first
    assert [*found.folder.glob("0*")] == [], "the folders of runs that survived are removed"


def test_what_breaks_is_made_smaller_and_its_folder_repeats_it(home, tmp_path):
    found = explored(LATE, home, tmp_path, runs=5, jobs=1, shrink_runs=4)
    assert (found.verdict, found.runs) == ("failed", 2), "the second case is the harsh corner"
    assert found.first is not None and found.shortest is not None
    assert found.first.values == found.shortest.values == {"fault.delay": "800ms"}
    assert [step["failed"] for step in found.steps if step["step"] == "fault.delay weaker"] == [False, False]
    assert found.coverage.seeds == 2
    assert found.replay is not None and found.replay.difference is None, found.replay
    assert (found.replayed, found.replay.outcome.verdict) == ("identical", "failed")
