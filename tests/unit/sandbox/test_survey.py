import os
from pathlib import Path
from typing import Any

import pytest

from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.lease import Lease
from stormcell.sandbox.record import Record
from stormcell.sandbox.survey import Found, decide, look, look_at_all, making_name

BOOT = "this-boot"
OWNER = ProcessRef(100, 1, BOOT)
MACHINE = ProcessRef(200, 2, BOOT)


def record(**changes) -> Record:
    values: dict[str, Any] = {
        "id": "sc-00000000",
        "template": "d",
        "template_name": "base",
        "state": "running",
        "ttl_seconds": 60.0,
        "owner": OWNER,
        "machine": MACHINE,
    }
    return Record(**(values | changes))


def found(**changes) -> Found:
    values: dict[str, Any] = {
        "folder": Path("/sandboxes/sc-00000000"),
        "record": record(),
        "torn": "",
        "lease": Lease(1000, BOOT, 60.0),
        "machines": (MACHINE,),
        "owner_alive": True,
    }
    return Found(**(values | changes))


KEPT = {
    "in use": found(),
    "still creating": found(record=record(state="creating", machine=None), machines=()),
    "without owner, alive": found(record=record(owner=None), owner_alive=False),
    "guest died, the owner will look": found(machines=()),
    "being made": found(record=None, lease=None, machines=(), maker_alive=True),
}

REMOVED = {
    "its owner, process 100, is dead": found(owner_alive=False),
    "its ttl of 60 s passed": found(lease=Lease(500, BOOT, 60.0)),
    "the host was booted since": found(lease=Lease(1000, "older boot", 60.0)),
    "it has no record": found(record=None),
    "it has no lease": found(lease=None),
    "its record is torn": found(record=None, torn="Expecting value"),
    "its machine is dead": found(record=record(owner=None), owner_alive=False, machines=()),
    "its removal was begun and not finished": found(lease=Lease(1000, BOOT, 60.0, claimed="kill")),
    "its maker died while making it": found(record=None, lease=None, machines=(), maker_alive=False),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_in_use_stays(name):
    assert not decide(KEPT[name], 500, BOOT).remove


@pytest.mark.parametrize("reason", REMOVED)
def test_what_a_dead_process_left_goes_and_says_why(reason):
    decision = decide(REMOVED[reason], 500, BOOT)
    assert decision.remove
    assert decision.reason == reason


def test_a_live_owner_does_not_save_what_is_overdue():
    assert decide(found(), 1000, BOOT).remove


def test_look_reads_a_folder_that_is_being_made(tmp_path):
    name = making_name("sc-0000000a", ProcessRef.here())
    (tmp_path / name).mkdir()
    (tmp_path / ".new-sc-0000000b-1-1").mkdir()
    (tmp_path / "someone else's").mkdir()
    seen = {entry.folder.name: entry.maker_alive for entry in look_at_all(tmp_path)}
    assert seen == {name: True, ".new-sc-0000000b-1-1": False}


def test_look_of_an_empty_folder_and_of_none(tmp_path):
    assert look(tmp_path).record is None
    assert look_at_all(tmp_path / "nothing") == []


def test_an_owner_whose_pid_was_reused_is_dead(tmp_path):
    folder = tmp_path / "sc-0000000a"
    folder.mkdir()
    here = ProcessRef.here()
    record(id=folder.name, owner=ProcessRef(os.getpid(), here.start_time + 1, here.boot_id)).write(folder)
    assert not look(folder).owner_alive
    record(id=folder.name, owner=here).write(folder)
    assert look(folder).owner_alive
