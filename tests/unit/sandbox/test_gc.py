import fcntl
import os
import signal
from pathlib import Path

import pytest

from stormcell.machine.held import NAME, held
from stormcell.sandbox import lease
from stormcell.sandbox.gc import collect
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.record import Record
from stormcell.spec.home import Home


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path / "state", tmp_path / "cache")


def sandbox(home: Home, name: str, owner: ProcessRef | None) -> Path:
    folder = home.sandboxes / name
    folder.mkdir(parents=True)
    lease.begin(folder, 600)
    Record(name, "d", "base", "running", 600, owner).write(folder)
    return folder


def dead(pid: int = 1) -> ProcessRef:
    return ProcessRef(pid, 0, ProcessRef.here().boot_id)


def test_an_empty_home_has_nothing(home):
    assert list(collect(home)) == []


def test_what_a_dead_owner_left_goes_with_its_machine_and_the_living_stays(home, stand_in):
    orphan = sandbox(home, "sc-0000000a", dead())
    mine = sandbox(home, "sc-0000000b", ProcessRef.here())
    detached = sandbox(home, "sc-0000000c", None)
    machines = [stand_in(folder) for folder in (orphan, mine, detached)]

    (found,) = collect(home, dry_run=True)
    assert (found.path, found.machines, found.evidence, found.gone) == (orphan, (machines[0].pid,), None, False)
    assert orphan.exists()
    assert machines[0].poll() is None

    (item,) = collect(home)
    assert item.gone
    assert "its owner" in item.reason
    assert machines[0].wait(timeout=30) == -signal.SIGKILL
    assert not orphan.exists()
    assert [machine.poll() for machine in machines[1:]] == [None, None]
    assert item.as_dict()["evidence"]["complete"] is True
    assert list(collect(home)) == []


def test_a_torn_record_whose_machine_lives(home, stand_in):
    folder = sandbox(home, "sc-0000000a", ProcessRef.here())
    machine = stand_in(folder)
    (folder / "record.json").write_text("{")
    (item,) = collect(home)
    assert item.reason == "its record is torn"
    assert item.gone
    assert machine.wait(timeout=30) == -signal.SIGKILL


def test_a_half_built_template_goes_with_its_machine_unless_somebody_builds(home, stand_in):
    work = home.templates / "abc.new"
    (work / "run").mkdir(parents=True)
    (work / "disk").write_bytes(b"x" * 5000)
    machine = stand_in(work / "run")
    held = os.open(home.templates / "abc.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    assert list(collect(home)) == []
    os.close(held)
    (item,) = collect(home)
    assert (item.kind, item.gone, item.machines) == ("build", True, (machine.pid,))
    assert machine.wait(timeout=30) == -signal.SIGKILL
    assert not work.exists()


def test_what_only_has_the_name_of_a_sandbox_is_left_alone_and_in_nobodys_way(home, tmp_path):
    """A link would lead gc into a folder that is not ours; a file once ended it with the rest undone."""
    other = tmp_path / "not-ours"
    other.mkdir()
    (other / "keep").touch()
    home.sandboxes.mkdir(parents=True)
    (home.sandboxes / "sc-0000000a").write_text("a file")
    (home.sandboxes / "sc-0000000b").symlink_to(other)
    orphan = sandbox(home, "sc-0000000c", dead())
    assert [(item.path, item.gone) for item in collect(home)] == [(orphan, True)]
    assert [path.name for path in other.iterdir()] == ["keep"]


def test_what_cannot_be_removed_is_said_and_the_rest_goes(home):
    stuck = sandbox(home, "sc-0000000a", dead())
    (stuck / "lease").unlink()
    (stuck / "lease").mkdir()
    orphan = sandbox(home, "sc-0000000b", dead())
    first, second = collect(home)
    assert (first.path, first.gone, second.path, second.gone) == (stuck, False, orphan, True)
    assert "lease: Is a directory" in first.reason


@pytest.mark.parametrize("place", ["instant", "machine of an instant", "drive", "run"])
def test_what_a_killed_sealed_run_left_goes_with_its_machine_and_what_is_held_stays(home, stand_in, place):
    below, prefix = {
        "instant": (home.instants, "i-"),
        "machine of an instant": (home.instants, "m-"),
        "drive": (home.runs, ".drive-"),
        "run": (home.runs / "20261130T000000-web-abc", ".machine-"),
    }[place]
    below.mkdir(parents=True)
    with held(below, prefix) as mine:
        dead = below / f"{prefix}dead"
        run = dead / "m" if place == "instant" else dead
        run.mkdir(parents=True)
        (dead / NAME).write_text("")
        (dead / "memory").write_bytes(b"x" * 5000)
        machine = stand_in(run)
        (found,) = collect(home, dry_run=True)
        assert (found.path, found.machines, found.evidence) == (dead, (machine.pid,), None)
        (item,) = collect(home)
        assert item.gone and item.evidence is not None and item.evidence.files.bytes >= 5000
        assert machine.wait(timeout=30) == -signal.SIGKILL
        assert not dead.exists() and mine.exists()
        assert list(collect(home)) == []


def test_a_half_built_sealed_template_goes_unless_somebody_builds(home):
    work = home.sealed / "abc.new"
    work.mkdir(parents=True)
    held_by_us = os.open(home.sealed / "abc.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held_by_us, fcntl.LOCK_EX)
    assert list(collect(home)) == []
    os.close(held_by_us)
    (item,) = collect(home)
    assert (item.kind, item.gone) == ("build", True)
