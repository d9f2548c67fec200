"""`stormcell run` as a user runs it, stopped and killed at awkward moments."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from stormcell.machine.model import ProcessIdentity
from stormcell.machine.process import identity_of
from tests.e2e.stormcell_command import COMMAND, json_of, stormcell

QUICK = """\
name: quick
question: Does a command still run when lo is late?
template: base
steady_state:
  - name: alive
    command: {run: "ping -c 3 -i 0.2 127.0.0.1"}
    expect: {exit_code: 0}
fault: {kind: net.delay, device: lo, delay: 20ms}
predict: survives
"""
SLOW = QUICK.replace("name: quick", "name: slow").replace("predict:", "hold: 120s\npredict:")


@pytest.fixture
def files(tmp_path):
    (tmp_path / "quick.yaml").write_text(QUICK)
    (tmp_path / "slow.yaml").write_text(SLOW)
    (tmp_path / "failing.yaml").write_text(
        QUICK.replace("expect: {exit_code: 0}", "expect: {exit_code: 0}\n    under_fault: {seconds: <= 1us}")
    )  # one replacement
    (tmp_path / "void.yaml").write_text(QUICK.replace("device: lo, ", "device: eth0, address: 192.0.2.1, "))
    return tmp_path


def machine_of(home: Path) -> ProcessIdentity:
    """The microVM of the only sandbox."""
    (folder,) = (home / "state" / "sandboxes").iterdir()
    record = json.loads((folder / "record.json").read_text())
    return ProcessIdentity(record["machine"]["pid"], record["machine"]["start_time"])


def started(home: Path, file: Path, until: str) -> tuple["subprocess.Popen[str]", ProcessIdentity]:
    """A run under way: the event `until` has been written."""
    process = subprocess.Popen(
        [COMMAND, "run", "--json", file],
        env={**os.environ, "STORMCELL_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        logs = list((home / "state" / "runs").glob("*/events.jsonl"))
        if logs and until in logs[0].read_text():
            return process, machine_of(home)
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    raise AssertionError(f"no {until} in time")


def gone(identity: ProcessIdentity) -> bool:
    return identity_of(identity.pid) != identity


def test_a_run_prints_one_document_and_its_folder_judges_the_same(home, files):
    done = stormcell("run", "--json", files / "quick.yaml", home=home)
    assert done.returncode == 0, done.stderr
    (result,) = json_of(done)["results"]
    assert result["verdict"] == "survived" and result["surprise"] is False
    judged = stormcell("judge", "--json", result["folder"], home=home)
    assert judged.returncode == 0
    assert json_of(judged)["same_as_saved"] is True


def test_a_result_that_was_tampered_with_is_noticed(home, files):
    (result,) = json_of(stormcell("run", "--json", files / "void.yaml", home=home))["results"]
    saved = Path(result["folder"]) / "result.json"
    saved.write_text(saved.read_text().replace('"void"', '"survived"'))
    judged = stormcell("judge", result["folder"], home=home)
    assert judged.returncode == 4
    assert "says something else: verdict" in judged.stderr


def test_several_runs_side_by_side_have_one_exit_code(home, files):
    done = stormcell("run", "--jobs", "2", files / "quick.yaml", files / "failing.yaml", files / "void.yaml", home=home)
    assert done.returncode == 1, done.stderr
    for verdict in ("survived", "failed", "void"):
        assert verdict in done.stdout


def test_two_commands_at_once_do_not_meet(home, files):
    both = [
        subprocess.Popen(
            [COMMAND, "run", "--json", files / "quick.yaml"],
            env={**os.environ, "STORMCELL_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(2)
    ]
    results = [json.loads(process.communicate(timeout=250)[0])["results"][0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert len({result["folder"] for result in results}) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_releases_its_machine_and_is_unknown(home, files, number):
    process, machine = started(home, files / "slow.yaml", '"applied"')
    for _ in range(3):  # who is impatient changes nothing
        process.send_signal(number)
        time.sleep(0.02)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 4, err
    said = json.loads(out)
    assert said["interrupted"] is True
    assert "Traceback" not in err
    assert gone(machine)
    (folder,) = (home / "state" / "runs").iterdir()
    assert [(one["verdict"], one["folder"]) for one in said["results"]] == [("unknown", str(folder))]
    result = json.loads((folder / "result.json").read_text())
    assert result["verdict"] == "unknown"
    assert result["reasons"][0]["code"] == "interrupted"


@pytest.mark.parametrize("moment", ['"create"', '"created"', '"applied"'])
def test_after_sigkill_gc_finds_and_removes_all_with_evidence(home, files, moment):
    process = subprocess.Popen(
        [COMMAND, "run", files / "slow.yaml"],
        env={**os.environ, "STORMCELL_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 120
    while True:
        logs = list((home / "state" / "runs").glob("*/events.jsonl"))
        if logs and moment in logs[0].read_text():
            break
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    sandboxes = list((home / "state" / "sandboxes").iterdir()) if (home / "state" / "sandboxes").exists() else []
    done = stormcell("gc", "--json", home=home)
    assert done.returncode == 0, done.stderr
    if sandboxes:
        assert sandboxes[0].name in done.stdout
        assert not sandboxes[0].exists()
    assert json_of(stormcell("sandbox", "list", "--json", home=home)) == []
    (folder,) = (home / "state" / "runs").iterdir()
    judged = stormcell("judge", "--json", folder, home=home)
    assert judged.returncode == 4
    assert json_of(judged)["verdict"] == "unknown"


def test_a_dry_run_starts_nothing(home, files):
    done = stormcell("run", "--dry-run", files / "quick.yaml", home=home)
    assert done.returncode == 0
    assert "netem delay" in done.stdout
    assert not (home / "state").exists()


def test_a_closed_pipe_is_no_traceback(home, files):
    done = subprocess.run(
        f"'{COMMAND}' faults | head -1; '{COMMAND}' schema | head -1",
        shell=True,
        capture_output=True,
        text=True,
        timeout=250,
        check=False,
    )
    assert "Traceback" not in done.stderr
