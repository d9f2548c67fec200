"""`stormcell run --sealed` and `--replay` as a user runs them, each in a process of its own."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.stormcell_command import COMMAND, json_of, stormcell

QUICK = """\
name: quick
template: base
steady_state:
  - name: echo
    command: {run: "ping -c 20 -i 0.02 -W 1 -q 127.0.0.1; true", number: "transmitted, ([0-9]+)"}
    expect: {number: ">= 1"}
fault: {kind: net.loss, device: lo, loss: 30%}
"""


@pytest.fixture
def file(tmp_path) -> Path:
    path: Path = tmp_path / "quick.yaml"
    path.write_text(QUICK)
    return path


def test_a_sealed_run_is_repeated_from_its_folder_wherever_that_is(home, file, tmp_path):
    done = stormcell("run", "--sealed", "--seed", "9", "--json", file, home=home)
    assert done.returncode == 0, done.stderr
    (result,) = json_of(done)["results"]
    sealed = result["sealed"]
    assert (result["verdict"], sealed["seed"]) == ("survived", 9)
    assert sealed["guest_seconds"] > 0.5 and sealed["host_seconds"] > 0
    judged = json_of(stormcell("judge", result["folder"], "--json", home=home))
    assert judged["same_as_saved"] is True and judged["sealed"] == sealed and judged["instruction_time"] is True
    listed = json_of(stormcell("template", "list", "--json", home=home))
    assert sealed["snapshot"] in [item["snapshot"] for item in listed if item["sealed"]]
    folder = tmp_path / "elsewhere"
    shutil.copytree(result["folder"], folder)
    file.unlink()
    log = folder / "events.jsonl"
    told = log.read_text()
    log.unlink()  # the few KB without it are enough
    again = stormcell("run", "--replay", folder, "--json", home=home)
    assert again.returncode == 0, again.stderr
    replayed = json_of(again)
    assert replayed["identical"] is True and replayed["difference"] is None
    assert replayed["outcome"]["sealed"]["events_sha256"] == sealed["events_sha256"]

    events = [json.loads(line) for line in told.splitlines()]
    number = next(place for place, event in enumerate(events) if event["event"] == "probe")
    events[number]["began"] += 1e-9
    edited = "".join(json.dumps(event) + "\n" for event in events)
    log.write_text(edited)
    about = json.loads((folder / "sealed.json").read_text())
    about["events_sha256"] = hashlib.sha256(edited.encode()).hexdigest()
    (folder / "sealed.json").write_text(json.dumps(about))
    other = stormcell("run", "--replay", folder, home=home)
    assert other.returncode == 1
    assert f"DIFFERENT: event {number} (probe before.echo) differs in began" in other.stdout
    log.unlink()
    os.mkfifo(log)
    refused = stormcell("run", "--replay", folder, home=home)
    assert refused.returncode == 2 and "events.jsonl cannot be read" in refused.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("device: lo, ", "device: eth0, ", "a sealed machine has no card"),
        ("{kind: net.loss, device: lo, loss: 30%}", "{kind: machine.pause, for: 1s}", "use process.stop"),
    ],
)
def test_what_it_cannot_do_is_refused_before_anything_starts(home, file, old, new, said):
    file.write_text(QUICK.replace(old, new))
    done = stormcell("run", "--sealed", file, home=home)
    assert done.returncode == 2
    assert said in done.stderr and "nothing was started" in done.stderr
    assert not (home / "state" / "runs").exists()


def test_what_is_no_sealed_runs_folder_is_refused(home, tmp_path):
    done = stormcell("run", "--replay", tmp_path, home=home)
    assert done.returncode == 2
    assert "no folder of a sealed run" in done.stderr


def test_what_a_killed_sealed_run_left_is_found_by_gc(home, file):
    def found():
        return [item for item in json_of(stormcell("gc", "--json", home=home)) if item["kind"] == "sealed machine"]

    environment = {**os.environ, "STORMCELL_HOME": str(home)}
    running = subprocess.Popen([COMMAND, "run", "--sealed", file], env=environment, stderr=subprocess.DEVNULL)
    runs = home / "state" / "runs"
    deadline = time.monotonic() + 300
    while not list(runs.glob("*/.machine-*/pid")) and time.monotonic() < deadline:
        assert running.poll() is None
        time.sleep(0.02)
    running.send_signal(signal.SIGSTOP)  # alive, and the run does not end meanwhile
    assert found() == []
    running.kill()
    running.wait()
    (left,) = found()
    assert left["gone"] is True and str(runs) in left["path"]
    assert not list(runs.glob("*/.machine-*")) and found() == []

    (folder,) = runs.iterdir()
    events = len((folder / "events.jsonl").read_text().splitlines())
    again = stormcell("run", "--replay", folder, "--json", home=home)
    assert again.returncode == 4, again.stderr
    replayed = json_of(again)
    assert (replayed["cut_off"], replayed["identical"]) == ({"events": events}, False)
    assert replayed["outcome"]["verdict"] == "survived"
