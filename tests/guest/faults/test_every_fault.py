"""Of every kind: when the runner is killed under it, a watchdog takes it back, and nothing in the guest is left."""

import json

import pytest

from stormcell.faults import CATALOGUE
from stormcell.guest.inventory import differences
from tests.guest.faults.fault_record import CASES

ONE_CPU = ("cpu.online",)
"""Not in the guest of this file, which has one CPU; its own tests have another."""
KINDS = [
    kind
    for kind, fault in CATALOGUE.items()
    if kind in CASES and not (fault.unavailable or fault.on_machine or kind in ONE_CPU)
]


@pytest.fixture(scope="module")
def tools(bench):
    bench.put_tools()
    return bench


def test_every_kind_that_a_guest_carries_out_has_a_case():
    named = {kind for kind, fault in CATALOGUE.items() if not (fault.unavailable or fault.on_machine)}
    assert named - set(KINDS) == set(ONE_CPU)


@pytest.mark.parametrize("kind", KINDS)
def test_a_watchdog_takes_it_back_from_the_receipt_alone(tools, kind):
    spec, parts, _ = CASES[kind]
    for text in parts.get("setup", ()):
        tools.run(text)
    before = json.loads(tools.run("stormcell-guest inventory"))
    tools.abandon(spec, **parts)
    after = json.loads(tools.run("stormcell-guest inventory"))
    # the loads of a case may have made cgroups; what was there before has its limits again
    left = [item for item in differences(before, after) if item["what"] != "cgroups" or item["before"] is not None]
    assert left == []
