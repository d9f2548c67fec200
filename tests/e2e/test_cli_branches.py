"""`stormcell run` of an experiment with branches: what it prints, and that nothing is left however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.stormcell_command import COMMAND, ROOT, json_of, stormcell

PARTED = """\
name: parted
question: Is it the delay, or the clock?
template: base
load:
  - {name: ticker, run: "while :; do sleep 0.1; done"}
steady_state:
  - name: alive
    command: {run: "ping -c 3 -i 0.2 127.0.0.1"}
    expect: {exit_code: 0}
moment: {after: 300ms}
branches:
  late: {fault: {kind: net.delay, device: lo, delay: 20ms}, predict: survives}
  wrong-time: {kind: clock.jump, by: 1h}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "parted.yaml").write_text(PARTED)
    return tmp_path / "parted.yaml"


def folder_of(home: Path) -> Path:
    (folder,) = (home / "state" / "runs").iterdir()
    return folder


def test_one_branch_and_its_control_from_the_command_line(home, file):
    done = stormcell("run", "--branch", "late", "--json", file, home=home)
    assert done.returncode == 0, done.stderr
    (result,) = json_of(done)["results"]
    assert [(branch["name"], branch["result"]["verdict"]) for branch in result["branches"]] == [
        ("control", "survived"),
        ("late", "survived"),
    ]
    assert result["surprise"] is False
    assert "late: steady state under the fault" in done.stderr
    judged = stormcell("judge", result["folder"], home=home)
    assert judged.returncode == 0, judged.stderr
    for words in ("branch 'late' survived", "net.delay", "packets that left the netem queue", "0.3 s under load"):
        assert words in judged.stdout, judged.stdout
    assert "says something else" not in judged.stderr


def test_a_dry_run_shows_the_moment_and_every_plan(home, file):
    shown = stormcell("run", "--dry-run", file, home=home)
    assert shown.returncode == 0
    for words in (
        "until 0.3 s under load",
        "control, late, wrong-time",
        "nothing, where the others act",
        "netem delay",
    ):
        assert words in shown.stdout, shown.stdout
    plans = json_of(stormcell("run", "--dry-run", "--json", "--branch", "late", file, home=home))
    assert set(plans) == {"drive", "branches"}
    assert list(plans["branches"]) == ["control", "late"]
    assert not (home / "state").exists()


def test_a_branch_that_is_not_there_starts_nothing(home, file):
    done = stormcell("run", "--branch", "lat", file, home=home)
    assert done.returncode == 2
    assert "there is no branch 'lat'; did you mean 'late'?" in done.stderr
    assert not (home / "state").exists()


@pytest.mark.parametrize(
    "step", ["after:created", "after:moment", "after:paused", "before:branches/control", "after:fork", "after:receipt"]
)
def test_after_sigkill_at_any_step_gc_leaves_nothing_and_nothing_is_known(home, file, step):
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "e2e" / "killed_at.py", step, "run", file],
        env={**os.environ, "STORMCELL_HOME": str(home)},
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert stormcell("gc", home=home).returncode == 0
    assert json_of(stormcell("sandbox", "list", "--json", home=home)) == []
    judged = stormcell("judge", "--json", folder_of(home), home=home)
    assert (judged.returncode, json_of(judged)["verdict"]) == (4, "unknown")


@pytest.mark.parametrize("until", ['"load"', "branches/control", "branches/late"])
def test_a_stopped_run_releases_every_machine_and_is_unknown(home, file, until):
    process = subprocess.Popen(
        [COMMAND, "run", "--json", file],
        env={**os.environ, "STORMCELL_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline:
        logs = list((home / "state" / "runs").glob("**/events.jsonl"))
        if any(until in str(log) or until in log.read_text() for log in logs):
            break
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 4, err
    assert "Traceback" not in err
    assert json.loads(out)["interrupted"] is True
    assert list((home / "state" / "sandboxes").iterdir()) == []
    result = json.loads((folder_of(home) / "result.json").read_text())
    assert (result["verdict"], result["reasons"][0]["code"]) == ("unknown", "interrupted")
    judged = stormcell("judge", "--json", folder_of(home), home=home)
    assert (judged.returncode, json_of(judged)["same_as_saved"]) == (4, True)
