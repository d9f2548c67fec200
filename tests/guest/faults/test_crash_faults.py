"""Crashes by the host, through whole runs: the machine is gone in the way that was asked for."""

import json

import pytest

from stormcell.engine.api import run
from stormcell.engine.folder import read_receipts
from stormcell.judge.events import read_events


def crash(**fault):
    alive = {"name": "alive", "command": {"run": "cat /var/kept", "match": "kept"}, "expect": {"matches": True}}
    spec = {
        "name": "crash",
        "template": "base",
        "setup": [{"run": "echo kept > /var/kept; sync; echo lost > /var/lost"}],
        "steady_state": [alive],
        "fault": {"kind": "machine.crash", **fault},
        "recovery": {"within": "60s"},
    }
    return run(spec)


@pytest.mark.parametrize(("mode", "reason"), [("power", "SIGKILL"), ("panic", "guest-"), ("reboot", "guest-reset")])
def test_the_machine_dies_that_way_and_boots_from_what_is_on_its_disk(mode, reason):
    outcome = crash(mode=mode)
    receipt = read_receipts(outcome.folder)["fault"]
    assert (receipt.in_force, receipt.acted) == (True, 1)
    during = receipt.readings["during"]
    assert json.loads(during.text("vmm"))["reason"].startswith(reason)
    assert ("Kernel panic - not syncing" in during.text("console")) is (mode == "panic")
    assert during.text("boot_id_before") != during.text("boot_id_after") != ""
    assert outcome.verdict == "survived", outcome.result.reasons
    assert any(event.get("event") == "released" for event in read_events(outcome.folder / "events.jsonl"))


def test_without_a_boot_there_is_no_second_boot_id():
    outcome = crash(mode="power", boot=False)
    receipt = read_receipts(outcome.folder)["fault"]
    assert (receipt.in_force, receipt.acted) == (True, 1)
    assert receipt.readings["during"].text("boot_id_after") == ""
