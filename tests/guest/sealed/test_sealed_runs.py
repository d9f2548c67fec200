"""Sealed runs in real machines of the template `base`: the same bits again, and nothing left behind."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stormcell.engine.sealed import conduct
from stormcell.engine.sealed.run import replay, run_sealed
from stormcell.machine.model import ProcessIdentity
from stormcell.machine.process import identity_of, read_identity
from stormcell.spec.home import Home
from stormcell.template.sealed import build_sealed
from stormcell.template.store import find

RACE = """
import os, threading, time
taken = []
def take(name):
    for _ in range(50):
        taken.append(name)
        time.sleep(0)
threads = [threading.Thread(target=take, args=(name,)) for name in "abc"]
for each in threads: each.start()
for each in threads: each.join()
print("".join(taken), os.urandom(4).hex(), time.monotonic_ns())
"""
QUICK = {
    "name": "quick",
    "template": "base",
    "setup": [{"run": ["python3", "-c", RACE]}],
    "steady_state": [
        {
            "name": "echo",
            "command": {"run": "ping -c 20 -i 0.02 -W 1 -q 127.0.0.1; true", "number": "transmitted, ([0-9]+)"},
            "expect": {"number": ">= 1"},
        }
    ],
    "fault": {"kind": "net.loss", "device": "lo", "loss": "30%"},
}
CRASH = {
    "name": "crash",
    "template": "base",
    "setup": [{"run": "echo kept > /root/synced; sync; head -c 5000 /dev/urandom > /root/written"}],
    "steady_state": [{"name": "disk", "command": {"run": "cat /root/synced"}, "expect": {"exit_code": 0}}],
    "fault": {"kind": "machine.crash", "mode": "panic", "boot": True},
    "recovery": {"within": "60s"},
}
HALT = "import ctypes; ctypes.CDLL(None).reboot(0xCDEF0123)"  # LINUX_REBOOT_CMD_HALT: the kernel stands still for ever
HALTED = {**QUICK, "name": "halted", "setup": [{"run": ["python3", "-c", HALT]}], "deadline": "10m"}
PANIC = {**QUICK, "name": "panic", "setup": [{"run": "echo c > /proc/sysrq-trigger"}]}
WAITS = {**QUICK, "name": "waits", "setup": [{"run": "while :; do :; done"}], "deadline": "1h"}


@pytest.fixture(scope="module")
def home(own_home: Home) -> Home:
    """With the sealed template: built in the user's own cache if it is not there."""
    asyncio.run(build_sealed(find("base", own_home), home=own_home))
    return own_home


def events(folder: Path) -> bytes:
    return (folder / "events.jsonl").read_bytes()


def test_a_run_is_repeated_to_the_byte_also_beside_another_one_and_another_seed_is_another_run(home):
    async def all_of_it():
        one, other = await asyncio.gather(*(run_sealed(QUICK, seed=seed, home=home) for seed in (5, 6)))
        return one, other, await replay(one.folder, home=home)

    one, other, again = asyncio.run(all_of_it())
    assert [one.verdict, other.verdict] == ["survived", "survived"], (one.result.reasons, other.result.reasons)
    assert again.difference is None, again.difference.text
    assert again.outcome.sealed is not None and one.sealed is not None
    assert again.outcome.sealed.events_sha256 == one.sealed.events_sha256
    assert not again.outcome.folder.exists(), "an identical run is not kept twice"
    assert events(one.folder) != events(other.folder)
    drawn = [next(line for line in events(run.folder).splitlines() if b"setup.1" in line) for run in (one, other)]
    assert drawn[0] != drawn[1], "the race and the random bytes are the seed's"
    assert one.sealed.guest_seconds > 1 and one.sealed.evidence is not None
    assert one.sealed.evidence["process_gone"] is True
    assert [*one.folder.glob(".machine-*")] == []
    small = sum(path.stat().st_size for path in one.folder.iterdir() if path.name != "events.jsonl")
    assert small < 100_000, "a run that travels is a few KB"


def test_a_crash_and_the_boot_behind_it_are_the_same_twice(home):
    async def twice():
        return await asyncio.gather(*(run_sealed(CRASH, seed=3, home=home) for _ in range(2)))

    one, other = asyncio.run(twice())
    assert one.verdict == "survived", one.result.reasons
    assert events(one.folder) == events(other.folder)
    told = [json.loads(line) for line in events(one.folder).splitlines()]
    (booted,) = (event for event in told if event.get("what") == "booted")
    begins = [event for event in told if event["event"] == "begin"]
    assert booted["seconds"] > 1 and begins[0]["boot_id"] != begins[1]["boot_id"]
    assert begins[1]["wall"] > begins[0]["wall"], "the clock on the wall goes on over a boot"


def test_a_guest_that_goes_down_unasked_is_unknown(home):
    outcome = asyncio.run(run_sealed(PANIC, seed=1, home=home))
    assert outcome.verdict == "unknown"
    assert b"the guest went down (guest-reset)" in events(outcome.folder)
    assert "Kernel panic" in (outcome.folder / "console.log").read_text()


def test_a_guest_that_stands_still_for_ever_is_given_up(home, monkeypatch):
    monkeypatch.setattr(conduct, "SILENT_S", 8.0)
    beats: list[Mapping[str, Any]] = []
    outcome = asyncio.run(run_sealed(HALTED, seed=1, home=home, on_event=beats.append))
    assert outcome.verdict == "unknown"
    assert b"silent for 8s of this host's time" in events(outcome.folder)
    assert outcome.sealed is not None and outcome.sealed.guest_seconds > 0
    told = [event["seconds"] for event in beats if event["event"] == "beat"]
    assert told and told == sorted(told)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_qemu_ends_with_who_made_it_and_nothing_is_left_beside_the_run(home, tmp_path, number):
    state = tmp_path / "home"
    state.mkdir()
    (state / "cache").symlink_to(home.cache)
    file = tmp_path / "waits.yaml"
    file.write_text(json.dumps(WAITS))
    process = subprocess.Popen(
        [sys.executable, "-m", "stormcell", "run", "--sealed", file],
        env={**os.environ, "STORMCELL_HOME": str(state), "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        machine = _machine_of(state, process)
        process.send_signal(number)
        process.wait(timeout=120)
    finally:
        process.kill()
    deadline = time.monotonic() + 60
    while identity_of(machine.pid) == machine:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (run,) = (state / "state" / "runs").iterdir()
    left = sorted(path.name for path in (state / "state").rglob("*") if run not in path.parents)
    assert [name for name in left if name.startswith((".machine", "m-", "i-"))] == []
    if number == signal.SIGINT:
        assert json.loads((run / "result.json").read_text())["verdict"] == "unknown"
        assert [*run.glob(".machine-*")] == []


def _machine_of(state: Path, process: "subprocess.Popen[bytes]") -> ProcessIdentity:
    """Once its runner has begun."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for log in (state / "state" / "runs").glob("*/events.jsonl"):
            if b'"begin"' in log.read_bytes():
                (folder,) = log.parent.glob(".machine-*")
                found = read_identity(folder)
                assert found is not None
                return found
        assert process.poll() is None
        time.sleep(0.05)
    raise AssertionError("the run did not begin in time")


@pytest.mark.parametrize("size", ["4k", "200k"])
def test_a_full_disk_is_one_error_and_leaves_nothing(home, tmp_path, size):
    """4k hold no plan, and 200k no machine: it is asked for before one is made."""
    state, file = tmp_path / "home", tmp_path / "quick.yaml"
    (state / "state").mkdir(parents=True)
    (state / "cache").symlink_to(home.cache)
    file.write_text(json.dumps(QUICK))
    script = (
        f'mount -t tmpfs -o size={size},mode=700 none "{state}/state" && '
        f'"$@"; code=$?; find "{state}/state" -name ".machine*" -o -name "m-*" -o -name plan.json; exit $code'
    )
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    done = subprocess.run(
        [*namespace, sys.executable, "-m", "stormcell", "run", "--sealed", "--json", file],
        env={**os.environ, "STORMCELL_HOME": str(state), "PYTHONPATH": os.pathsep.join(sys.path), "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    said = done.stdout + done.stderr
    assert done.returncode == 2, said
    assert "Traceback" not in said
    assert "space" in said.lower(), said
    assert done.stdout.rpartition("}")[2].strip() == "", "a folder of the run or of its machine is left"
    shutil.rmtree(state)
