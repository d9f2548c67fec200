"""Campaigns as a user runs them: to the end, stopped, killed at every step, gone on with."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.e2e.stormcell_command import COMMAND, ROOT, json_of, stormcell

QUICK = """\
name: quick
template: base
steady_state:
  - name: alive
    command: {run: "ping -c 1 -W 20 127.0.0.1"}
    expect: {exit_code: 0}
fault: {kind: net.delay, device: lo, delay: 20ms}
"""
CAMPAIGN = "campaign: sweep\nexperiment: quick.yaml\n"


@pytest.fixture
def files(tmp_path):
    (tmp_path / "quick.yaml").write_text(QUICK)
    (tmp_path / "one.yaml").write_text(CAMPAIGN)
    return tmp_path


def campaign_of(home: Path) -> Path:
    (folder,) = (home / "state" / "campaigns").iterdir()
    return folder


def runs(folder: Path) -> list[Path]:
    """Folders of runs for which a machine was asked for."""
    return [events.parent for events in folder.glob("runs/*/*/*/events.jsonl") if events.read_text()]


def killed(step: str, file: Path, home: Path) -> Path:
    environment = {**os.environ, "STORMCELL_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, ROOT / "tests" / "e2e" / "killed_at.py", step, "run", file],
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    return campaign_of(home)


@pytest.mark.parametrize(
    ("step", "before", "after"),
    [
        # nothing was begun: it runs
        ("after:campaign/spec.json", 0, 1),
        ("after:claim", 0, 1),
        ("before:create", 0, 1),
        # the whole story is there: it is told, and nothing runs
        ("before:result.json", 1, 1),
        ("before:finish", 1, 1),
        ("after:finish", 1, 1),
        ("before:campaign/result.json", 1, 1),
    ],
)
def test_after_sigkill_at_any_step_nothing_that_finished_runs_twice(home, files, step, before, after):
    folder = killed(step, files / "one.yaml", home)
    assert len(runs(folder)) == before
    done = stormcell("run", "--json", "--resume", folder, home=home)
    assert done.returncode == 0, done.stderr
    (campaign,) = json_of(done)["campaigns"]
    assert campaign["complete"] is True
    assert campaign["counts"]["survived"] == 1
    assert len(runs(folder)) == after


@pytest.mark.parametrize("step", ["after:create", "after:created", "after:applied"])
def test_a_run_whose_outcome_was_lost_is_unknown_and_runs_again_only_when_asked(home, files, step):
    folder = killed(step, files / "one.yaml", home)
    done = stormcell("run", "--json", "--resume", folder, home=home)
    assert done.returncode == 4, done.stderr
    (campaign,) = json_of(done)["campaigns"]
    assert campaign["verdict"] == "unknown" and campaign["counts"]["lost"] == 1
    (line,) = campaign["cells"][0]["runs"]
    assert line["state"] == "lost" and "died" in line["why"]
    assert "--retry-unknown" in done.stderr
    assert len(runs(folder)) == 1
    stormcell("gc", home=home)  # a create that was under way is nobody's yet
    if step == "after:applied":
        again = stormcell("run", "--json", "--resume", folder, "--retry-unknown", home=home)
        assert again.returncode == 0, again.stderr
        assert len(runs(folder)) == 2


def test_a_matrix_runs_side_by_side_and_a_killed_one_goes_on(home, files):
    """Two cells, three runs of each; killed once two have finished; then gone on with, in one folder."""
    (files / "sweep.yaml").write_text(
        CAMPAIGN + "matrix: {fault.delay: [5ms, 20ms]}\nseeds: [3]\nrepeats: 3\njobs: 2\n"
    )
    process = subprocess.Popen(
        [COMMAND, "run", files / "sweep.yaml"],
        env={**os.environ, "STORMCELL_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 200
    while (ledger := list((home / "state").glob("campaigns/*/ledger.jsonl"))) == [] or (
        ledger[0].read_text().count('"finish"') < 2
    ):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    process.kill()
    process.wait()
    folder = campaign_of(home)
    finished = {json.loads(x)["id"] for x in (folder / "ledger.jsonl").read_text().splitlines() if '"finish"' in x}
    done = stormcell("run", "--json", "--resume", folder, "--retry-unknown", home=home)
    assert done.returncode == 0, done.stderr
    assert "runs had come to an end" in done.stderr and "left, about" in done.stderr
    (campaign,) = json_of(done)["campaigns"]
    assert campaign["counts"]["survived"] == 6 and campaign["complete"] is True
    assert [cell["at"] for cell in campaign["cells"]] == [{"delay": "5ms"}, {"delay": "20ms"}]
    for name in finished:
        assert len(list((folder / "runs" / name).iterdir())) == 1
    again = stormcell("run", "--resume", folder, home=home)
    assert again.returncode == 0
    assert "3 of 3" in again.stdout and "43.85 % to 100 %" in again.stdout
    assert "too few runs to say how often" in again.stdout


def test_the_first_failure_ends_a_campaign_that_fails_fast(home, files):
    bounds = "{tight: {seconds: <= 1us}, wide: {seconds: <= 1m}}"
    matrix = f"matrix: {{steady_state.alive.under_fault: {bounds}}}\nrepeats: 3\njobs: 1\nfail_fast: true\n"
    (files / "fast.yaml").write_text(CAMPAIGN + matrix)
    done = stormcell("run", "--json", files / "fast.yaml", home=home)
    assert done.returncode == 1, done.stderr
    document = json_of(done)
    (campaign,) = document["campaigns"]
    assert campaign["counts"] == {"survived": 0, "failed": 1, "void": 0, "unknown": 0, "lost": 0, "unfinished": 5}
    assert campaign["verdict"] == "failed" and campaign["complete"] is False
    again = stormcell("run", "--json", "--resume", campaign["folder"], home=home)
    assert again.returncode == 1
    assert json_of(again)["campaigns"][0]["counts"]["unfinished"] == 5


def test_two_campaigns_at_once_in_one_home_do_not_meet(home, files):
    both = [
        subprocess.Popen(
            [COMMAND, "run", "--json", "--repeat", "2", files / "quick.yaml"],
            env={**os.environ, "STORMCELL_HOME": str(home)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for _ in range(2)
    ]
    found = [json.loads(process.communicate(timeout=280)[0])["campaigns"][0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert [campaign["counts"]["survived"] for campaign in found] == [2, 2]
    assert len({campaign["folder"] for campaign in found}) == 2


def test_a_stopped_campaign_undoes_what_runs_and_says_how_to_go_on(home, files):
    (files / "slow.yaml").write_text(QUICK + "hold: 120s\n")
    process = subprocess.Popen(
        [COMMAND, "run", "--json", "--repeat", "2", "--jobs", "1", files / "slow.yaml"],
        env={**os.environ, "STORMCELL_HOME": str(home)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while not any('"applied"' in log.read_text() for log in (home / "state").glob("campaigns/*/runs/*/*/*/*.jsonl")):
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    refused = stormcell("run", "--resume", campaign_of(home), home=home)
    assert refused.returncode == 2 and "another process" in refused.stderr
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 4, err
    (campaign,) = json.loads(out)["campaigns"]
    assert campaign["counts"]["unfinished"] == 2
    assert f"--resume {campaign['folder']}" in err and "Traceback" not in err


def test_a_full_disk_ends_a_campaign_in_one_message_and_it_goes_on_with_room(home, files):
    """The ledger's disk is full when the run's end is to be written down."""
    code = """
import errno, os, stormcell.ledger.journal as journal
real = os.fdatasync
calls = []
def full(fd):
    calls.append(fd)
    if len(calls) == 2:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    real(fd)
journal.os = type("os", (), {**vars(os), "fdatasync": staticmethod(full)})
from stormcell.cli.main import main
main()
"""
    environment = {**os.environ, "STORMCELL_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code, "run", files / "one.yaml"],
        env=environment, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert "the ledger cannot be written (No space left on device)" in done.stderr
    assert "Traceback" not in done.stderr and "--resume" in done.stderr
    folder = campaign_of(home)
    done = stormcell("run", "--resume", folder, home=home)
    assert done.returncode == 0, done.stderr
    assert len(runs(folder)) == 1


def test_a_torn_ledger_is_mended_and_a_damaged_one_is_refused(home, files):
    done = stormcell("run", "--json", files / "one.yaml", home=home)
    folder = campaign_of(home)
    assert done.returncode == 0, done.stderr
    judged = stormcell("judge", "--json", folder, home=home)
    assert judged.returncode == 0 and json_of(judged)["same_as_saved"] is True
    whole = (folder / "ledger.jsonl").read_bytes()
    (folder / "ledger.jsonl").write_bytes(whole[:-10])
    assert stormcell("run", "--resume", folder, home=home).returncode == 0
    assert len(runs(folder)) == 1
    (folder / "ledger.jsonl").write_bytes(b"x" + whole[1:])
    damaged = stormcell("run", "--resume", folder, home=home)
    assert damaged.returncode == 2
    assert "damaged in line 1" in damaged.stderr
    (folder / "ledger.jsonl").write_bytes(whole)
    (run,) = runs(folder)
    events = (run / "events.jsonl").read_bytes()
    (run / "events.jsonl").write_bytes(events[: len(events) // 2])
    judged = stormcell("judge", folder, home=home)
    assert judged.returncode == 4
    assert "say something else than the ledger" in judged.stderr


def test_a_run_waits_for_memory_that_another_campaign_was_promised(home, files):
    """The other one is a process that holds a promise of all there is, until it is ended."""
    code = """
import sys
from stormcell.engine.campaigns.means import Need, look
from stormcell.engine.campaigns.promises import Promises
from stormcell.spec.home import Home
promises = Promises(Home.current())
with promises.settled():
    promises.promise("all", Need(look(Home.current().state).memory_total, 0))
print("promised", flush=True)
sys.stdin.read()
"""
    environment = {**os.environ, "STORMCELL_HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    other = subprocess.Popen([sys.executable, "-c", code], **pipes)  # type: ignore[call-overload]
    assert other.stdout.readline() == "promised\n"
    mine = subprocess.Popen(
        [COMMAND, "run", files / "one.yaml"],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert mine.stderr is not None
    said = mine.stderr.readline()
    assert said.startswith("waiting for memory") and "promised to runs under way" in said
    assert runs(campaign_of(home)) == []
    other.communicate()
    _, err = mine.communicate(timeout=200)
    assert mine.returncode == 0, err
    assert len(runs(campaign_of(home))) == 1


def test_what_this_host_can_never_run_is_refused(built, files, tmp_path):
    """Runs of this template have come to use a PiB, as a cache of its own remembers."""
    cache = tmp_path / "own" / "cache"
    cache.mkdir(parents=True)
    for entry in built.iterdir():
        if entry.name != "growth":
            (cache / entry.name).symlink_to(entry)
    digest = (cache / "names" / "base").read_text().strip()
    (cache / "growth").mkdir()
    (cache / "growth" / f"{digest}.json").write_text(json.dumps([1 << 50]))
    done = stormcell("run", "--json", files / "one.yaml", home=tmp_path / "own")
    assert done.returncode == 2
    assert "can never run 'quick'" in done.stderr and "MiB of memory" in done.stderr
    assert json_of(done)["campaigns"][0]["counts"]["unfinished"] == 1
    assert runs(campaign_of(tmp_path / "own")) == []


WEB = """\
name: web
template: base
setup:
  - run: |
      python3 -m http.server 8000 --bind 127.0.0.1 --directory /etc >/dev/null 2>&1 &
      until python3 -c 'import socket; socket.create_connection(("127.0.0.1", 8000))' 2>/dev/null; do sleep 0.2; done
steady_state:
  - name: web
    http: {url: "http://127.0.0.1:8000/hostname", count: 1, timeout: 30s}
    expect: {success_rate: 100%, p95: "<= 20s"}
    under_fault: {p95: "<= 4500ms"}
fault: {kind: net.delay, device: lo, delay: 100ms}
"""


def test_a_search_forks_what_was_set_up_once_and_finds_where_it_breaks(home, files):
    """An answer over a connection of its own takes two round trips at least: 5.6 s with 1.4 s each way.

    It is killed after its first run, and gone on with: the machine that was set up is removed, and another one made.
    """
    (files / "web.yaml").write_text(WEB)
    (files / "find.yaml").write_text(
        "campaign: how-late\nexperiment: web.yaml\njobs: 1\n"
        "find: {parameter: net.delay.delay, between: [1ms, 1400ms], probe: web, within: 1360ms, repeats: 1}\n"
    )
    folder = killed("after:finish", files / "find.yaml", home)
    assert json_of(stormcell("judge", "--json", folder, home=home))["search"]["outcome"] == "unfinished"
    done = stormcell("run", "--json", "--resume", folder, home=home)
    assert done.returncode == 0, done.stderr
    (campaign,) = json_of(done)["campaigns"]
    assert campaign["counts"]["survived"] + campaign["counts"]["failed"] == len(runs(folder))
    search = campaign["search"]
    assert search["outcome"] == "found" and search["harder"] == "up", search
    assert 0.001 <= search["low"] < search["high"] <= 1.4
    assert campaign["info"]["forked"] is True
    assert len(list((folder / "setup").iterdir())) == 2
    for run in runs(folder):
        events = [json.loads(event) for event in (run / "events.jsonl").read_text().splitlines()]
        boots = {event["boot_id"] for event in events if event["event"] == "begin"}
        assert len(boots) == 1 and sum(event["event"] == "begin" for event in events) == 2
        judged = stormcell("judge", "--json", run, home=home)
        assert json_of(judged)["same_as_saved"] is True


def test_a_dry_run_prints_the_matrix_and_starts_nothing(files, tmp_path):
    (files / "x.yaml").write_text(CAMPAIGN + "matrix: {fault.delay: [10ms, 1s]}\nrepeats: 4\n")
    done = stormcell("run", "--dry-run", files / "x.yaml", home=tmp_path / "home")
    assert done.returncode == 0
    assert "2 cells, 8 runs" in done.stdout and "quick.delay-1s" in done.stdout
    plan = json_of(stormcell("run", "--dry-run", "--json", files / "x.yaml", home=tmp_path / "home"))
    assert [run["seed"] for run in plan["runs"]] == [0, 0, 1, 1, 2, 2, 3, 3]
    assert not (tmp_path / "home" / "state").exists()


def test_a_campaign_that_was_killed_is_reported_from_its_ledger_and_reports_when_gone_on_with(home, files):
    folder = killed("before:campaign/result.json", files / "one.yaml", home)
    assert stormcell("report", folder, "--out", files / "early", home=home).returncode == 0
    done = stormcell("run", "--resume", folder, "--report", files / "late", home=home)
    assert done.returncode == 0 and "report.html" in done.stderr, done.stderr
    for out in (files / "early", files / "late"):
        (campaign,) = json.loads((out / "report.json").read_text())["campaigns"]
        assert [line["verdict"] for line in campaign["lines"]] == ["survived"] and len(campaign["runs"]) == 1
        assert '<testsuite name="sweep" tests="1"' in (out / "junit.xml").read_text()
