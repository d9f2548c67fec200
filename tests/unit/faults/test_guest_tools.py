"""What of the guest's tools can run anywhere: on our own child processes, and on the clock without moving it."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stormcell.guest.tools import cgroup, common, counters, processes
from stormcell.guest.tools.clock import tool as clock
from stormcell.guest.tools.disk import fill, space
from stormcell.guest.tools.process import kill


@pytest.fixture(autouse=True)
def marks(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(common, "MARKS", str(tmp_path / "marks"))


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process of a name that nobody else has."""
    with subprocess.Popen(["sleep", "300"]) as process:
        yield process
        process.kill()


def run(tool, capsys, *words: str):
    """(exit code, decoded stdout or None, stderr)."""
    code = tool.main(list(words))
    said = capsys.readouterr()
    return code, json.loads(said.out) if said.out else None, said.err


def test_kill_names_its_victim_by_pid_and_start_time(child, capsys):
    code, sent, _ = run(kill, capsys, "send", "m", "KILL", "pid", str(child.pid))
    assert code == 0
    assert child.wait(30) == -signal.SIGKILL
    victim = sent["sent"][0]
    assert (victim["pid"], victim["comm"], victim["sent"]) == (child.pid, "sleep", True)
    _, shown, _ = run(kill, capsys, "show", "m", "pid", str(child.pid))
    assert shown["sent"] == sent["sent"]
    assert shown["alive"] == []


def test_a_zombie_is_gone(child, capsys):
    run(kill, capsys, "send", "m", "KILL", "pid", str(child.pid))
    deadline = time.monotonic() + 30
    while processes.look(child.pid) is not None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert processes.look(child.pid) is None
    assert Path(f"/proc/{child.pid}").exists(), "nobody has waited for it yet"


def test_a_pid_with_another_start_time_is_somebody_else(child, capsys):
    run(kill, capsys, "send", "m", "TERM", "pid", str(child.pid))
    child.wait(30)
    own = processes.look(os.getpid())
    assert own is not None
    common.put_mark("m", [{"pid": own.pid, "start_time": own.start_time + 1, "comm": "x", "sent": True}])
    assert run(kill, capsys, "show", "m", "name", "nobody-has-this")[1]["alive"] == []


def test_without_a_victim_nothing_is_remembered(capsys):
    code, sent, said = run(kill, capsys, "send", "m", "KILL", "name", "no-such-program-here")
    assert (code, sent) == (common.NOBODY, None)
    assert "there is no process of name 'no-such-program-here'" in said
    assert common.get_mark("m") is None


def test_by_name_the_callers_are_spared(child):
    assert child.pid in {process.pid for process in processes.named("sleep")}
    assert processes.ancestors() >= {os.getpid(), os.getppid()}
    own = processes.look(os.getpid())
    assert own is not None
    assert os.getpid() not in {process.pid for process in processes.named(own.comm)}


def test_the_clock_offset_is_what_both_clocks_say(capsys):
    code, offset, _ = run(clock, capsys, "offset")
    assert code == 0
    assert abs(offset / 1e9 - (time.time() - time.clock_gettime(time.CLOCK_BOOTTIME))) < 1


@pytest.mark.parametrize(
    ("tool", "words", "code", "said"),
    [
        (clock, [], 2, "usage: stormcell-guest clock offset|"),
        (clock, ["back"], 2, "usage: stormcell-guest clock"),
        (clock, ["jump"], 2, "clock jump takes (nanoseconds)"),
        (clock, ["jump", "1", "2"], 2, "clock jump takes (nanoseconds)"),
        (clock, ["jump", "soon"], 1, "clock jump: invalid literal"),
        (kill, ["send", "m", "NOSUCH", "pid", "1"], 1, "kill send: SIGNOSUCH"),
        (cgroup, ["set", "m", "memory.events", "cgroup", "/no/such", "memory.max=1"], 1, "there is no cgroup /no/such"),
        (fill, ["blocks", "c", "/no/such", "nobody", "0"], 1, "/no/such is no folder"),
    ],
)
def test_a_call_that_cannot_be_meant_or_fails_says_why(tool, words, code, said, capsys):
    got, answer, error = run(tool, capsys, *words)
    assert (got, answer) == (code, None)
    assert said in error


def test_room_agrees_with_statvfs(tmp_path):
    told = space.room(str(tmp_path))
    assert told["size"] >= told["free"] >= told["available"] >= 0
    assert space.bytes_left_for("root", told) == told["free"]
    assert space.bytes_left_for("nobody", told) == told["available"]
    assert space.share("25%", 1000) == 250
    assert space.share("64", 1000) == 64


def test_a_probe_on_a_disk_with_room_is_not_refused_and_leaves_nothing(tmp_path):
    user = subprocess.run(["id", "-un"], capture_output=True, text=True, check=True).stdout.strip()
    assert space.try_write(str(tmp_path), user, 0) == {"attempts": 3, "refused": 0, "errno": 0, "error": ""}
    assert space.try_write(str(tmp_path), user, 1 << 20)["refused"] == 0
    assert space.try_create(str(tmp_path))["refused"] == 0
    assert list(tmp_path.iterdir()) == []


def test_clear_removes_what_is_there_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setattr(counters, "TRACING", str(tmp_path / "tracing"))
    (tmp_path / "mine").write_text("kept")
    (tmp_path / f"{fill.FILE}counter").write_bytes(b"x")
    (tmp_path / f"{fill.FOLDER}counter").mkdir()
    for n in range(20):
        (tmp_path / f"{fill.FOLDER}counter" / f"{n:x}").touch()
    for _ in range(2):
        fill.clear("counter", str(tmp_path))
        assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_marks_are_replaced_whole_and_may_be_missing():
    assert common.get_mark("none") is None
    common.put_mark("m", {"a": 1})
    common.put_mark("m", [2])
    assert common.get_mark("m") == [2]
    common.drop_mark("m")
    common.drop_mark("m")
    assert common.get_mark("m") is None
