"""The example that the README shows: the same fault, the first version of the shop and the mended one."""

import asyncio
from pathlib import Path

import pytest

from stormcell.engine.load import load_file
from stormcell.template.build import build
from tests.e2e.stormcell_command import ROOT, json_of, stormcell

EXPERIMENTS = ROOT / "examples" / "orders" / "experiments"


@pytest.fixture(scope="module")
def orders() -> None:
    """Built in the user's own cache: a template is bound to the folder that it was built in."""
    asyncio.run(build(load_file(EXPERIMENTS / "clock-forward-first.yaml").recipe))


def test_a_clock_jump_ends_sessions_in_the_first_version_and_not_in_the_mended_one(orders, home):
    files: list[Path] = [EXPERIMENTS / f"clock-forward-{variant}.yaml" for variant in ("first", "fixed")]
    done = stormcell("run", "--json", *files, home=home)
    first, fixed = json_of(done)["results"]
    assert (first["verdict"], fixed["verdict"]) == ("failed", "survived"), done.stdout
    assert done.returncode == 1
    assert {check["measured"] for p in first["probes"] if p["phase"] == "under" for check in p["checks"]} >= {401.0}
    for result in (first, fixed):
        (fault,) = result["faults"]
        assert fault["in_force"] and fault["acted"] == 1 and fault["clean"]
        assert result["surprise"] is False
