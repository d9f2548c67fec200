"""Of every kind: when the runner is killed under it, a watchdog takes it back, and nothing in the guest is left."""

import json
import os

import pytest

from stormcell import faults
from stormcell.faults import CATALOGUE
from stormcell.guest.inventory import differences
from stormcell.spec.fault import GUEST
from tests.guest.faults.fault_record import CASES
from tests.guest.faults.recording import GROUP

ONE_CPU = ("cpu.online",)
"""Not in the guest of this file, which has one CPU; its own tests have another."""
KINDS = [
    kind
    for kind, fault in CATALOGUE.items()
    if kind in CASES and not (fault.unavailable or fault.on_machine or kind in ONE_CPU)
]


def one_of_each_mechanism():
    """The first kind of each way to undo; the others differ from it in their amounts. All of them with TEST_EVERY=1."""
    if os.environ.get("TEST_EVERY"):
        return KINDS
    found: dict[object, str] = {}
    for kind in KINDS:
        undo = faults.parse(CASES[kind][0]).plan().undo
        found.setdefault(tuple(command.argv[: 3 if command.argv[0] == GUEST else 1] for command in undo), kind)
    return list(found.values())


@pytest.fixture(scope="module")
def tools(bench):
    bench.put_tools()
    return bench


def test_every_kind_that_a_guest_carries_out_has_a_case():
    named = {kind for kind, fault in CATALOGUE.items() if not (fault.unavailable or fault.on_machine)}
    assert named - set(KINDS) == set(ONE_CPU)


@pytest.mark.parametrize("kind", one_of_each_mechanism())
def test_a_watchdog_takes_it_back_from_the_receipt_alone(tools, kind):
    spec, parts, _ = CASES[kind]
    for text in parts.get("setup", ()):
        tools.run(text)
    before = json.loads(tools.run("stormcell-guest inventory"))
    tools.abandon(spec, **parts)
    # a load that joined the group is not among those that a killed runner leaves
    tools.run(f"[ ! -d {GROUP} ] || echo 1 > {GROUP}/cgroup.kill")
    after = json.loads(tools.run("stormcell-guest inventory"))
    # the loads of a case may have made cgroups; what was there before has its limits again
    left = [item for item in differences(before, after) if item["what"] != "cgroups" or item["before"] is not None]
    assert left == []
