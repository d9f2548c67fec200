"""`stormcell sandbox` and `stormcell gc`, as a user types them."""

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stormcell.machine.process import identity_of
from stormcell.spec.home import Home
from tests.homes import remove_home

pytestmark = pytest.mark.e2e

PROGRAM = [str(Path(sys.executable).with_name("stormcell")), "sandbox"]


def run(*words: str, stdin: bytes = b"", timeout: float = 280) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([*PROGRAM, *words], input=stdin, capture_output=True, timeout=timeout)


def created(*words: str) -> str:
    done = run("create", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def gc(*words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run([PROGRAM[0], "gc", *words], capture_output=True, timeout=280)


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory):
    """A state of our own over the user's cache, whose template is built first so that it bears the cache's own name."""
    real = Home.current()
    subprocess.run([PROGRAM[0], "template", "build", "base"], check=True, capture_output=True, timeout=280)
    root = tmp_path_factory.mktemp("home")
    (root / "cache").symlink_to(real.cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("STORMCELL_HOME", str(root))
        yield Home.current()
    remove_home(root)


@pytest.fixture(scope="module")
def sandbox(home):
    name = created("--ttl", "20m", "--meta", "who=me")
    yield name
    assert run("kill", name).returncode == 0


def test_create_prints_the_id_and_list_shows_it(home):
    name = created("--ttl", "10m", "--open", "web=8080", "--meta", "a=b=c")
    table = run("list")
    assert name in table.stdout.decode()
    assert "running" in table.stdout.decode()
    (row,) = [row for row in json.loads(run("list", "--json").stdout) if row["id"] == name]
    assert row["template"] == "base"
    assert row["metadata"] == {"a": "b=c"}
    assert 0 < row["ports"]["web"] < 65536
    assert 500 < row["ttl_left_s"] <= 600
    assert row["memory_pss"] > 10 << 20

    done = run("kill", name, "--json")
    (evidence,) = json.loads(done.stdout)
    assert done.returncode == 0
    assert evidence["complete"] is True
    assert evidence["processes"][0]["pid"] == row["pid"]
    assert identity_of(row["pid"]) is None  # a zombie is gone, too: whoever adopted it has yet to look
    again = run("kill", name)
    assert again.returncode == 0
    assert b"already gone" in again.stdout


def test_exec_passes_streams_and_the_exit_code(sandbox):
    data = os.urandom(300_000)
    done = run("exec", sandbox, "--", "sh", "-c", "cat; echo err >&2; exit 7", stdin=data)
    assert (done.stdout, done.stderr, done.returncode) == (data, b"err\n", 7)
    assert run("exec", sandbox, "printf", "%s", "-x", "--", "a b").stdout == b"-x--a b"
    assert run("exec", sandbox, "true").returncode == 0


def test_exec_options(sandbox):
    done = run(
        "exec", "--cwd", "/usr", "--env", "A=b=c", "--user", "nobody", sandbox, "--", "sh", "-c", "pwd; echo $A; id -un"
    )
    assert done.stdout == b"/usr\nb=c\nnobody\n"


def test_exec_of_what_a_signal_killed_and_what_timed_out(sandbox):
    assert run("exec", sandbox, "--", "sh", "-c", "kill -TERM $$").returncode == 143
    for timeout in ("1s", "20s"):  # a guest that stood still for the shorter one has not begun
        done = run("exec", "--timeout", timeout, sandbox, "--", "sh", "-c", "echo begun; sleep 4331 & sleep 4331")
        if done.stdout:
            break
    assert (done.returncode, done.stdout) == (124, b"begun\n")
    assert b"timeout" in done.stderr
    assert run("exec", sandbox, "pgrep", "-f", "sleep 433[1]").returncode == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("exec", "sc-00000000", "true"), "there is no sandbox 'sc-00000000'"),
        (("exec", "../etc", "true"), "there is no sandbox '../etc'"),
        (("exec", "{id}", "no-such-program"), "no-such-program"),
        (("exec", "--user", "nosuchuser", "{id}", "true"), "no such user"),
    ],
)
def test_errors_of_exec_are_one_message_and_125(sandbox, words, said):
    done = run(*(word.format(id=sandbox) for word in words))
    assert done.returncode == 125
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("create", "--ttl", "10"), "has no unit"),
        (("create", "--ttl", "99d"), "out of range"),
        (("create", "--meta", "novalue"), "KEY=VALUE"),
        (("create", "--open", "web=http"), "no port"),
        (("create", "--open", "web=0"), "out of range"),
        (("create", "--open", "web=99999"), "out of range"),
        (("create", "--open", "web=80", "--open", "web=81"), "opened twice"),
        (("create", "--template", "nosuch"), "there is no template 'nosuch'"),
        (("pause", "sc-00000000"), "there is no sandbox"),
        (("kill", "nonsense"), "no sandbox id"),
        (("cp", "a", "b"), "neither side is a sandbox"),
    ],
)
def test_bad_usage_is_one_message_and_starts_nothing(home, words, said):
    before = run("list", "--json").stdout
    done = run(*words)
    assert done.returncode == 2
    assert said in done.stderr.decode()
    assert "Traceback" not in done.stderr.decode()
    assert len(json.loads(run("list", "--json").stdout)) == len(json.loads(before))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1])
def test_signals_reach_the_command(sandbox, number):
    name = signal.Signals(number).name.removeprefix("SIG")
    script = f"trap 'echo got {name}; exit 33' {name}; echo ready; while :; do sleep 0.1; done"
    with subprocess.Popen([*PROGRAM, "exec", sandbox, "--", "sh", "-c", script], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        child.send_signal(number)
        assert child.stdout.read() == f"got {name}\n".encode()
        assert child.wait(timeout=60) == 33


def test_ctrl_c_again_and_again_ends_what_does_not_heed_it(sandbox):
    # the child ignores SIGINT before it says that it is ready, and holds the outputs open
    words = [*PROGRAM, "exec", sandbox, "--", "sh", "-c", "(trap '' INT; echo ready; exec sleep 777) & sleep 778"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == b"ready\n"
        deadline = time.monotonic() + 60
        pressed = 0
        while not select.select([child.stderr], [], [], 0.3)[0]:  # two that come at once are one
            assert time.monotonic() < deadline
            child.send_signal(signal.SIGINT)
            pressed += 1
        assert pressed >= 3
        assert child.wait(timeout=60) == 130
        assert b"killing the command" in child.stderr.read()
    assert run("exec", sandbox, "--", "pgrep", "-f", "sleep 77").returncode == 1


def test_an_interrupt_that_the_command_does_not_catch_is_130(sandbox):
    with subprocess.Popen(
        [*PROGRAM, "exec", sandbox, "--", "sh", "-c", "echo ready; exec sleep 600"], stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=60) == 130


def test_a_reader_that_leaves_ends_the_command(sandbox):
    with subprocess.Popen([*PROGRAM, "exec", sandbox, "yes"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read(100)
        child.stdout.close()
        assert child.wait(timeout=100) == 141
    ends = run("exec", sandbox, "--", "sh", "-c", "while pgrep -x yes; do sleep 0.1; done")
    assert ends.returncode == 0


def test_a_command_in_a_killed_sandbox_has_an_unknown_outcome(home):
    name = created()
    with subprocess.Popen(
        [*PROGRAM, "exec", name, "--", "sh", "-c", "echo ready; sleep 600"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.readline()
        assert run("kill", name).returncode == 0
        assert child.wait(timeout=100) == 125
        said = child.stderr.read().decode()
    assert "outcome unknown" in said
    assert "Traceback" not in said


def test_cp_both_ways_keeps_bytes_modes_and_folders(sandbox, tmp_path):
    tree = tmp_path / "tree"
    (tree / "sub" / "deep").mkdir(parents=True)
    data = os.urandom(2_000_000)
    (tree / "sub" / "data").write_bytes(data)
    (tree / "sub" / "data").chmod(0o640)
    (tree / "run").write_text("#!/bin/sh\necho ran\n")
    (tree / "run").chmod(0o755)
    assert run("cp", str(tree), f"{sandbox}:/root/").returncode == 2
    assert run("cp", "-r", str(tree), f"{sandbox}:/root/").returncode == 0
    assert run("exec", sandbox, "/root/tree/run").stdout == b"ran\n"
    assert run("cp", "-r", f"{sandbox}:/root/tree", str(tmp_path / "back")).returncode == 0
    back = tmp_path / "back"
    assert (back / "sub" / "data").read_bytes() == data
    assert (back / "sub" / "data").stat().st_mode & 0o777 == 0o640
    assert (back / "sub" / "deep").is_dir()
    assert run("cp", f"{sandbox}:/root/tree/run", str(tmp_path)).returncode == 0
    assert (tmp_path / "run").read_text().endswith("echo ran\n")


def test_cp_leaves_links_out_and_says_so(sandbox, tmp_path):
    run("exec", sandbox, "--", "sh", "-c", "mkdir -p /root/l; ln -sf /etc/passwd /root/l/link; echo x > /root/l/file")
    done = run("cp", "-r", f"{sandbox}:/root/l", str(tmp_path))
    assert done.returncode == 1
    assert "/root/l/link" in done.stderr.decode()
    assert sorted(path.name for path in (tmp_path / "l").iterdir()) == ["file"]


def test_cp_between_two_sandboxes(sandbox):
    other = created()
    run("exec", sandbox, "--", "sh", "-c", "seq 100000 > /root/numbers")
    assert run("cp", f"{sandbox}:/root/numbers", f"{other}:/root/copy").returncode == 0
    assert (
        run("exec", other, "md5sum", "/root/copy").stdout[:32]
        == run("exec", sandbox, "md5sum", "/root/numbers").stdout[:32]
    )
    assert run("kill", other).returncode == 0


def test_pause_and_resume(sandbox):
    assert run("pause", sandbox).returncode == 0
    (row,) = [row for row in json.loads(run("list", "--json").stdout) if row["id"] == sandbox]
    assert row["state"] == "paused"
    done = run("exec", sandbox, "true")
    assert done.returncode == 125
    assert "is paused" in done.stderr.decode()
    assert run("resume", sandbox).returncode == 0
    assert run("exec", sandbox, "true").returncode == 0


def test_four_terminals_at_once(sandbox):
    children = [
        subprocess.Popen([*PROGRAM, "exec", sandbox, "--", "sh", "-c", f"sleep 1; echo {n}"], stdout=subprocess.PIPE)
        for n in range(4)
    ]
    assert [child.communicate(timeout=200)[0] for child in children] == [f"{n}\n".encode() for n in range(4)]


def test_the_ttl_ends_one_that_nobody_uses_and_gc_has_nothing_to_do(home):
    name = created("--ttl", "3s")
    deadline = time.monotonic() + 100
    while (home.sandboxes / name).exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    log = home.state / "reaped.jsonl"
    while not log.exists() or name not in log.read_text():  # it is written down when the files are gone
        assert time.monotonic() < deadline
        time.sleep(0.1)
    done = gc()
    assert done.returncode == 0
    assert b"nothing was left" in done.stderr


def test_gc_finds_what_a_killed_create_left(home, sandbox):
    owned = (
        "import os, signal; from stormcell import Sandbox\n"
        "print(Sandbox.create('base').id, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", owned], capture_output=True, timeout=200)
    name = done.stdout.decode().strip()
    dry = gc("--dry-run")
    (line,) = [line for line in dry.stdout.decode().splitlines() if name in line]
    assert "is dead" in line
    assert "would go" in line
    assert (home.sandboxes / name).exists()
    (item,) = json.loads(gc("--json").stdout)
    assert item["evidence"]["id"] == name
    assert item["gone"] is True
    assert not (home.sandboxes / name).exists()
    assert run("exec", sandbox, "true").returncode == 0


def test_fork_and_snapshot(sandbox):
    run("exec", sandbox, "--", "sh", "-c", "echo warmed > /run/state")
    forked = run("fork", sandbox, "-n", "2", "--meta", "n=1", "--json")
    assert forked.returncode == 0, forked.stderr
    children = json.loads(forked.stdout)
    assert [child["parent"] for child in children] == [sandbox, sandbox]
    saved = run("snapshot", sandbox, "mine", "--json")
    assert saved.returncode == 0, saved.stderr
    about = json.loads(saved.stdout)
    assert (about["name"], about["parent"], len(about["digest"])) == ("mine", sandbox, 64)
    restored = json.loads(run("create", "--snapshot", "mine", "--json").stdout)
    assert restored["snapshot"] == "mine"
    ids = [*(child["id"] for child in children), restored["id"]]
    for name in ids:
        assert run("exec", name, "--", "cat", "/run/state").stdout == b"warmed\n"
    assert all(name in run("list").stdout.decode() for name in ids)

    def snapshot(*words):
        return subprocess.run([PROGRAM[0], "snapshot", *words], capture_output=True, text=True, timeout=280)

    assert "mine" in snapshot("list").stdout
    assert snapshot("show", "mine", "--verify").returncode == 0
    refused = subprocess.run([PROGRAM[0], "template", "rm", "base"], capture_output=True, text=True, timeout=280)
    assert refused.returncode == 3
    assert "stormcell snapshot rm mine" in refused.stderr
    assert run("snapshot", sandbox, "mine").returncode == 2
    assert run("create", "--snapshot", "mine", "--template", "base").returncode == 2
    assert run("create", "--snapshot", "other").returncode == 2
    assert run("fork", sandbox, "-n", "0").returncode == 2
    assert run("kill", *ids).returncode == 0
    assert snapshot("rm", "mine").returncode == 0
    assert snapshot("rm", "mine").returncode == 2
    assert json.loads(snapshot("list", "--json").stdout) == []
