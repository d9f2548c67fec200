"""Against real processes: a shell that holds the lock as a machine does."""

import fcntl
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from stormcell.sandbox import lease
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.record import Record
from stormcell.sandbox.removal import kill_process, lock_held, machines_of, remove


@pytest.fixture
def folder(tmp_path) -> Path:
    made: Path = tmp_path / "sc-0000000a"
    made.mkdir()
    lease.begin(made, 60)
    return made


@pytest.fixture
def machine(folder, stand_in):
    return stand_in(folder)


def test_the_machine_is_named_by_its_pid_file_while_the_lock_is_held(folder, machine):
    assert lock_held(folder)
    assert [ref.pid for ref in machines_of(folder)] == [machine.pid]
    machine.kill()
    machine.wait()
    assert not lock_held(folder)
    assert machines_of(folder) == []


def test_a_machine_that_no_file_names_is_found_by_its_lock(folder, stand_in):
    child = stand_in(folder, named=False)
    (folder / "record.json").write_text("torn")
    assert [ref.pid for ref in machines_of(folder)] == [child.pid]
    evidence = remove(folder, "torn record")
    assert evidence is not None
    assert evidence.complete
    assert child.wait(timeout=30) == -signal.SIGKILL


def test_remove_kills_removes_and_proves_it(folder, machine):
    (folder / "disk.qcow2").write_bytes(b"x" * 10_000)
    (folder / "link").symlink_to(folder.parent / "outside")
    (folder.parent / "outside").write_text("stays")
    evidence = remove(folder, "test")
    assert evidence is not None
    assert machine.wait(timeout=30) == -signal.SIGKILL
    assert not folder.exists()
    assert (folder.parent / "outside").exists()
    (process,) = evidence.processes
    assert (process.pid, process.gone, process.how) == (machine.pid, True, "SIGKILL")
    assert evidence.files.bytes >= 10_000
    assert evidence.complete
    assert evidence.as_dict()["complete"] is True


def test_a_second_remove_says_already_gone(folder, machine):
    remove(folder, "first")
    again = remove(folder, "second")
    assert again is not None
    assert again.already_gone
    assert again.processes == ()


def test_a_renewed_lease_saves_the_machine(folder, machine):
    assert remove(folder, "its ttl passed", only_overdue=True) is None
    assert machine.poll() is None
    assert folder.exists()


def test_a_pid_that_was_reused_is_never_killed(folder):
    bystander = subprocess.Popen(["sleep", "600"])
    try:
        here = ProcessRef.here()
        wrong = ProcessRef(bystander.pid, here.start_time - 100_000, here.boot_id)
        assert kill_process(wrong).how == "was dead"
        assert kill_process(ProcessRef(bystander.pid, here.start_time, "another boot")).how == "was dead"
        Record("sc-0000000a", "d", "base", "running", 60, None, machine=wrong).write(folder)
        stat = Path(f"/proc/{bystander.pid}/stat").read_text()
        (folder / "pid").write_text(stat)  # names a living process, but the lock is not held: it is not the machine
        evidence = remove(folder, "test")
        assert evidence is not None
        assert evidence.processes == ()
        time.sleep(0.2)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_who_starts_a_machine_holds_its_lock_and_is_not_the_machine(folder):
    lock = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert lock_held(folder)
        assert machines_of(folder) == []
    finally:
        os.close(lock)
