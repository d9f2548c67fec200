import dataclasses
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from stormcell.sandbox import lease, reaper, removal
from stormcell.sandbox.hostclock import ProcessRef, boot_id
from stormcell.sandbox.lease import Lease
from stormcell.sandbox.record import Record, State


def sandbox(state: Path, name: str, ttl: float) -> Path:
    folder = state / "sandboxes" / name
    folder.mkdir(parents=True)
    lease.begin(folder, ttl)
    Record(name, "d", "base", "running", ttl, ProcessRef.here()).write(folder)
    return folder


def eventually(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return False


def removed(folder: Path) -> bool:
    """Unless one that just begins has put its lock or its log into it meanwhile."""
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists()


def test_due_are_those_whose_time_is_over():
    known = {
        "over": Lease(99, "here", 1),
        "just over": Lease(100, "here", 1),
        "to go": Lease(101, "here", 1),
        "older boot": Lease(10**18, "before", 1),
        "being killed by another": Lease(101, "here", 1, claimed="kill"),
        "torn": None,
    }
    assert reaper.due(known, 100, "here") == ["just over", "older boot", "over"]


def test_reap_kills_what_is_due_spares_the_rest_and_writes_evidence(tmp_path, stand_in):
    over, lives = sandbox(tmp_path, "sc-0000000a", 0), sandbox(tmp_path, "sc-0000000b", 600)
    dies, stays = stand_in(over), stand_in(lives)
    log = tmp_path / "reaped.jsonl"
    assert reaper.reap(tmp_path, log) == 1
    assert dies.wait(timeout=30) == -signal.SIGKILL
    assert stays.poll() is None
    assert not over.exists()
    assert lives.exists()
    (line,) = log.read_text().splitlines()
    evidence = json.loads(line)
    assert evidence["id"] == over.name
    assert evidence["processes"][0]["pid"] == dies.pid
    assert evidence["complete"] is True


def test_what_waits_for_a_dead_process_goes_long_before_its_lease(tmp_path, stand_in):
    dead = subprocess.Popen(["true"])
    gone = ProcessRef(dead.pid, 1, boot_id())
    dead.wait()
    states: dict[str, tuple[State, ProcessRef | None]] = {
        "sc-0000000a": ("waiting", gone),
        "sc-0000000b": ("waiting", ProcessRef.here()),
        "sc-0000000c": ("running", gone),
        "sc-0000000d": ("running", None),
    }
    for name, (state, owner) in states.items():
        record = Record.read(sandbox(tmp_path, name, 600))
        assert record is not None
        dataclasses.replace(record, state=state, owner=owner).write(tmp_path / "sandboxes" / name)
    waits = stand_in(tmp_path / "sandboxes" / "sc-0000000a")
    assert reaper.reap(tmp_path, tmp_path / "log") == 3
    assert sorted(path.name for path in (tmp_path / "sandboxes").iterdir()) == [*states][1:]
    assert waits.wait(timeout=30) == -signal.SIGKILL
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert json.loads(line)["reason"] == "the process in whose pool it waited is dead"


def test_one_bad_folder_does_not_save_the_others(tmp_path, monkeypatch):
    bad, good = sandbox(tmp_path, "sc-0000000a", 0), sandbox(tmp_path, "sc-0000000b", 0)
    real = removal.remove

    def failing(folder, *args, **kwargs):
        if folder == bad:
            raise OSError("input/output error")
        return real(folder, *args, **kwargs)

    monkeypatch.setattr(reaper, "remove", failing)
    reaper.reap(tmp_path, tmp_path / "log")
    assert bad.exists()
    assert not good.exists()


def test_the_started_reaper_outlives_its_starter_is_alone_and_leaves(tmp_path):
    """A starter that dies by SIGKILL right after; the reaper still removes at the deadline, then ends by itself."""
    folder = sandbox(tmp_path, "sc-0000000a", 600)
    code = (
        "import sys, os, signal; from pathlib import Path; from stormcell.sandbox import reaper\n"
        "assert reaper.ensure(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)"
    )
    starter = subprocess.run([sys.executable, "-c", code, str(tmp_path)], timeout=60)
    assert starter.returncode == -signal.SIGKILL
    assert eventually(lambda: reaper.running(tmp_path))
    assert reaper.ensure(tmp_path) is False
    assert folder.exists()
    lease.renew(folder, 1)
    assert eventually(lambda: not folder.exists())
    log = tmp_path / "reaped.jsonl"  # written when the files are gone
    assert eventually(lambda: log.exists() and "its ttl of 1 s passed" in log.read_text())
    pid = int((tmp_path / "reaper.lock").read_text())
    session = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3])
    assert session != int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[3])
    assert (tmp_path / "reaper.log").read_text() == ""
    assert eventually(lambda: removed(tmp_path))  # a home that is gone needs no reaper
    assert eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_two_reapers_at_once_become_one(tmp_path):
    sandbox(tmp_path, "sc-0000000a", 600)
    command = [sys.executable, "-c", f"from stormcell.sandbox.reaper import main; main({str(tmp_path)!r})"]
    both = [subprocess.Popen(command) for _ in range(2)]
    try:
        assert eventually(lambda: sum(child.poll() is None for child in both) == 1)
        assert reaper.running(tmp_path)
        assert [child.poll() for child in both if child.poll() is not None] == [0]
    finally:
        for child in both:
            child.kill()
            child.wait()


def test_watch_leaves_when_there_is_nothing_for_a_while(tmp_path):
    begun = time.monotonic()
    reaper.watch(tmp_path, idle_seconds=0.3, look_every=0.05)
    assert time.monotonic() - begun >= 0.3
    assert not reaper.running(tmp_path)


@pytest.mark.parametrize("times", [1, 2])
def test_ensure_may_be_called_again(tmp_path, times):
    for _ in range(times):
        reaper.ensure(tmp_path)
    assert eventually(lambda: reaper.running(tmp_path))
    assert eventually(lambda: removed(tmp_path))  # lets it end at once
