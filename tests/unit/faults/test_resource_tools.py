"""Guest tools for CPU, memory and processes: what of them can run without a kernel of one's own."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stormcell.guest.tools import cgroup, common, groups, histograms, holders, kernellog, targets
from stormcell.guest.tools.memory import swap
from stormcell.guest.tools.process import rlimit, stop

GROUP_OOM = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=victim,mems_allowed=0,oom_memcg=/services/victim,"
    "task_memcg=/services/victim,task=my, odd=pid=7,pid=404,uid=0"
)
GLOBAL_OOM = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/a,"
    "task=x,pid=5,uid=1"
)


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(common, "MARKS", str(tmp_path / "marks"))


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "300"]) as process:
        deadline = time.monotonic() + 30
        while targets.find("pid", str(process.pid))[0].state != "S" and time.monotonic() < deadline:
            time.sleep(0.01)  # its loader opens files
        time.sleep(0.05)
        yield process
        process.kill()


@pytest.mark.parametrize(
    ("text", "cpus"), [("0-2,4\n", [0, 1, 2, 4]), ("0\n", [0]), ("\n", []), ("", []), ("3,1-2", [3, 1, 2])]
)
def test_a_set_of_cpus_is_read_as_the_kernel_writes_it(text, cpus):
    assert cgroup.cpus(text) == cpus


@pytest.mark.parametrize(
    ("value", "basis", "written"),
    [
        ("20%/100000:quota", None, "20000 100000"),
        ("50%/100000:quota", {"quota": 40000, "period": 100000}, "20000 100000"),
        ("50%/5000:cpus", {"cpus": 2}, "5000 5000"),
        ("1%/5000:cpu", {"cpus": 1}, "1000 5000"),
        ("+5", {"used": 12}, "17"),
        ("first:1", {"cpus": [2, 3]}, "2"),
        ("67108864", None, "67108864"),
    ],
)
def test_a_value_is_worked_out_from_what_the_guest_has(value, basis, written):
    assert cgroup._value("file", value, basis) == written


def test_no_cpu_is_taken_from_who_has_no_more_than_are_to_be_left():
    with pytest.raises(ValueError, match="it may use 1 CPUs"):
        cgroup._value("cpuset.cpus", "first:1", {"cpus": [0]})


def test_the_tightest_quota_of_the_groups_above_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(groups, "ROOT", str(tmp_path))
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert cgroup.tightest_quota(str(inner)) is None
    (inner / "cpu.max").write_text("max 100000\n")
    (inner.parent / "cpu.max").write_text("30000 100000\n")
    assert cgroup.tightest_quota(str(inner)) == {"quota": 30000, "period": 100000}
    (inner / "cpu.max").write_text("5000 10000\n")
    assert cgroup.tightest_quota(str(inner)) == {"quota": 30000, "period": 100000}


def test_pid_limits_of_the_groups_below_are_added(tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "pids.events").write_text("max 3\n")
    (tmp_path / "below" / "pids.events").write_text("max 4\n")
    assert cgroup._counters(str(tmp_path), "pids.events") == "max 7\n"


def test_the_victims_in_the_kernels_log_are_read_with_their_group(monkeypatch):
    lines = [(1, GLOBAL_OOM), (2, "something else"), (3, GROUP_OOM)]
    monkeypatch.setattr(kernellog, "records", lambda since=-1: [line for line in lines if line[0] > since])
    everywhere, inside = kernellog.kills(0)
    assert everywhere == {"group": None, "comm": "x", "pid": 5, "uid": 1}
    assert inside == {"group": "/services/victim", "comm": "my, odd=pid=7", "pid": 404, "uid": 0}
    assert kernellog.kills(3) == []
    assert kernellog.kills_in("/sys/fs/cgroup/services/victim", 0) == [GROUP_OOM]
    assert kernellog.kills_in("/sys/fs/cgroup/services/vic", 0) == []
    assert kernellog.last() == 3


def test_a_histogram_is_read_with_its_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(histograms, "EVENTS", str(tmp_path))
    folder = tmp_path / "signal" / "signal_generate"
    folder.mkdir(parents=True)
    head = (
        "# event histogram\n#\n# trigger info: hist:name={}:keys=pid:vals=hitcount:size=2048 if sig == 10 [active]\n#\n"
    )
    (folder / "hist").write_text(
        head.format("sc-other")
        + "{ pid: 1 } hitcount: 99\n"
        + head.format("sc-x")
        + "{ common_pid: my prog        [       267], pid:        245, result:          0 } "
        "hitcount:         17\n{ common_pid: 9 } hitcount: 2\n\nTotals:\n    Hits: 19\n"
    )
    assert histograms.counted("sc-x", "signal/signal_generate") == [
        ({"common_pid": "my prog        [       267]", "pid": "245", "result": "0"}, 17),
        ({"common_pid": "9"}, 2),
    ]
    assert histograms.counted("sc-y", "signal/signal_generate") is None


def test_a_refused_thread_is_told_with_its_process():
    own = os.getpid()
    told = rlimit._refused({"common_pid": f"my prog [ {own}]"}, 3)
    assert told == {"comm": "my prog", "thread": own, "pid": own, "hits": 3}
    assert rlimit._refused({"common_pid": "torn"}, 3) is None


def test_swap_areas_are_read_with_odd_names(tmp_path, monkeypatch):
    table = tmp_path / "swaps"
    table.write_text("Filename Type Size Used Priority\n/var/my\\040swap file 1024 4 -2\n/dev/zram0 partition 64 0 5\n")
    monkeypatch.setattr(swap, "TABLE", str(table))
    first, second = swap.areas()
    assert first == {"device": "/var/my swap", "kind": "file", "size": 1 << 20, "used": 4096, "priority": -2}
    assert (second["device"], second["priority"]) == ("/dev/zram0", 5)


def test_only_that_very_process_is_signalled(child):
    found = targets.find("pid", str(child.pid))[0].as_dict()
    assert stop.send({**found, "start_time": found["start_time"] + 1}, signal.SIGKILL) is False
    assert child.poll() is None
    assert stop.send(found, signal.SIGKILL) is True
    child.wait(30)
    assert stop.send(found, signal.SIGKILL) is False


def test_a_stop_is_let_go_once_and_not_whom_somebody_else_stopped(child):
    stop.halt("m", "signal", "pid", str(child.pid))
    assert [entry["state"] for entry in stop.show("m", "pid", str(child.pid))["stopped"]] == ["T"]
    stop.halt("n", "signal", "pid", str(child.pid))
    stop.release("n")
    assert stop.show("m", "pid", str(child.pid))["stopped"][0]["state"] == "T", "it was stopped before"
    stop.release("m")
    stop.release("m")
    assert targets.find("pid", str(child.pid))[0].state not in "Tt"


def test_free_descriptors_are_counted_between_those_that_are_taken(child):
    taken = {int(path.name) for path in Path(f"/proc/{child.pid}/fd").iterdir()}
    for more in (0, 1, 5):
        limit = rlimit._new("nofile", child.pid, f"+{more}")
        assert len([number for number in range(limit) if number not in taken]) == more


@pytest.mark.parametrize("tool", [cgroup.restore, stop.release, swap.on, holders.stop])
def test_an_undo_without_an_act_does_nothing(tool):
    assert tool("never") is None
