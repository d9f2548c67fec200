"""`stormcell explore` as a user runs it: what it prints when something breaks, and when it is interrupted."""

import json
import os
import shlex
import signal
import subprocess
import time

import pytest

from tests.e2e.stormcell_command import COMMAND, json_of, stormcell

LATE = """\
name: late
template: base
steady_state:
  - name: echo
    command: {run: "ping -c 1 -W 1 -q 127.0.0.1"}
    expect: {exit_code: 0}
fault: {kind: net.delay, device: lo, delay: 10ms}
explore:
  vary:
    fault.delay: [1ms, 800ms]
"""
HARMLESS = LATE.replace("800ms", "10ms")


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "late.yaml"
    path.write_text(LATE)
    return path


def test_what_broke_is_printed_with_the_command_that_repeats_it_and_was_tried(home, file, tmp_path):
    into = tmp_path / "a folder"
    done = stormcell("explore", "--runs", "3", "--jobs", "1", "--shrink", "1", "--into", into, file, home=home)
    assert done.returncode == 1, done.stderr
    said = done.stdout.splitlines()
    assert said[0].startswith("broken  late")
    place = next(number for number, line in enumerate(said) if line.strip().startswith("replay it with"))
    assert "repeated once, identical" in said[place]
    command = shlex.split(said[place + 1])
    assert command[:3] == ["stormcell", "run", "--replay"] and command[3].startswith(str(into))
    again = stormcell(*command[1:], "--json", home=home)
    assert again.returncode == 0 and json_of(again)["identical"] is True


def test_an_interrupted_exploration_tells_what_it_knows_and_leaves_nothing(home, file, tmp_path):
    file.write_text(HARMLESS)
    into = tmp_path / "into"
    running = subprocess.Popen(
        [COMMAND, "explore", "--runs", "1000", "--jobs", "2", "--into", into, "--json", file],
        env={**os.environ, "STORMCELL_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while sum(len(path.read_text().splitlines()) for path in into.glob("*/tried.jsonl")) < 2:
        assert running.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    for _ in range(3):  # who is impatient changes nothing
        running.send_signal(signal.SIGINT)
        time.sleep(0.02)
    printed, said = running.communicate(timeout=120)
    assert running.returncode == 4, said
    assert "Traceback" not in said
    found = json.loads(printed)
    assert (found["interrupted"], found["verdict"], found["replayed"]) == (True, "unknown", None)
    assert found["coverage"]["runs"]["survived"] >= 2
    (folder,) = into.iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["drive", "exploration.json", "tried.jsonl"]
    assert json.loads((folder / "exploration.json").read_text()) == found
    machines = subprocess.run(["pgrep", "-f", str(into)], capture_output=True, check=False).stdout
    assert machines == b""
