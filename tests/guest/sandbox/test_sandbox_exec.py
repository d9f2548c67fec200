import hashlib
import os
import signal
import threading
import time

import pytest

from stormcell.machine.commands import CommandNotStarted
from stormcell.sandbox.results import CommandFailed
from stormcell.spec.errors import OutputLimit


def test_streams_are_apart_and_the_exit_code_is_the_commands(sbx):
    result = sbx.exec("echo out; echo err >&2; exit 7")
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 7)
    assert (result.signal, result.timed_out, result.ok) == (None, False, False)
    assert result.text == "out\n"


def test_argv_is_not_shell_text_and_may_hold_any_byte(sbx):
    word = bytes(range(1, 256))
    result = sbx.exec([b"/usr/bin/printf", b"%s", word])
    assert result.stdout == word
    assert sbx.exec(["echo", "$HOME", "*", "a b"]).text == "$HOME * a b\n"


def test_cwd_env_and_user(sbx):
    result = sbx.exec("pwd; echo $COLOUR; id -un; echo $HOME", cwd="/usr/lib", env={"COLOUR": "grün"}, user="nobody")
    assert result.text.split("\n")[:3] == ["/usr/lib", "grün", "nobody"]


@pytest.mark.parametrize(
    ("arguments", "stage"),
    [
        ({"command": ["no-such-program"]}, "program"),
        ({"command": "true", "cwd": "/no/such"}, "cwd"),
        ({"command": "true", "user": "nosuchuser"}, "user"),
    ],
)
def test_what_could_not_start_is_no_exit_code(sbx, arguments, stage):
    with pytest.raises(CommandNotStarted) as caught:
        sbx.exec(**arguments)
    assert caught.value.stage == stage


def test_a_signal_is_no_exit_code(sbx):
    result = sbx.exec("kill -9 $$")
    assert (result.exit_code, result.signal) == (None, 9)
    assert result.shell_code() == 137


def test_check_raises_with_the_result(sbx):
    with pytest.raises(CommandFailed, match="exit code 3") as caught:
        sbx.exec("echo why >&2; exit 3", check=True)
    assert caught.value.result.exit_code == 3
    assert "why" in str(caught.value)
    assert sbx.exec("true", check=True).ok


def test_binary_stdin_comes_back_as_it_was(sbx):
    data = os.urandom(3_000_001)
    assert sbx.exec(["cat"], stdin=data).stdout == data


def test_stdin_from_an_iterable_and_none_is_empty(sbx):
    assert sbx.exec(["cat"], stdin=(bytes([n]) * 1000 for n in range(50))).stdout == b"".join(
        bytes([n]) * 1000 for n in range(50)
    )
    assert sbx.exec(["cat"]).stdout == b""


def test_a_command_that_does_not_read_its_input_ends_all_the_same(sbx):
    assert sbx.exec(["true"], stdin=bytes(5_000_000)).ok


def test_stdin_that_breaks_kills_the_command_and_is_raised(sbx):
    def broken():
        yield b"some"
        raise ValueError("the source broke")

    with pytest.raises(ValueError, match="the source broke"):
        sbx.exec("cat; sleep 4321", stdin=broken())
    assert sbx.exec("pgrep -f 'sleep 432[1]'").exit_code == 1


def test_100_mb_of_output_arrive_whole(sbx):
    block = os.urandom(1 << 20)
    sbx.filesystem.write("/run/block", block)
    result = sbx.exec("i=0; while [ $i -lt 100 ]; do cat /run/block; i=$((i+1)); done", timeout=600)
    assert len(result.stdout) == 100 << 20
    expected = hashlib.sha256()
    for _ in range(100):
        expected.update(block)
    assert hashlib.sha256(result.stdout).hexdigest() == expected.hexdigest()


def test_over_the_limit_the_tree_is_killed(sbx):
    with pytest.raises(OutputLimit, match="100000 bytes"):
        sbx.exec("sleep 4322 & yes", max_output=100_000)
    assert sbx.exec("pgrep -x yes || pgrep -f 'sleep 432[2]'").exit_code == 1


def test_handlers_get_all_of_it_in_this_thread_and_nothing_is_kept(sbx):
    out: list[bytes] = []
    err: list[bytes] = []
    threads = set()

    def handler(piece: bytes) -> None:
        out.append(piece)
        threads.add(threading.current_thread())

    result = sbx.exec("seq 1 20000; echo e >&2", on_stdout=handler, on_stderr=err.append, capture=False)
    assert (result.stdout, result.stderr) == (b"", b"")
    assert b"".join(out).split() == [str(n).encode() for n in range(1, 20001)]
    assert b"".join(err) == b"e\n"
    assert threads == {threading.current_thread()}


def test_a_handler_that_raises_kills_the_command(sbx):
    def handler(_: bytes) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        sbx.exec("echo x; sleep 4323", on_stdout=handler)
    assert sbx.exec("pgrep -f 'sleep 432[3]'").exit_code == 1


def test_a_timeout_kills_the_grandchild_that_holds_the_pipe(sbx):
    begun = time.monotonic()
    for timeout in (2, 20):  # a guest that stood still for the shorter one has not begun
        result = sbx.exec("echo begun; setsid sleep 4324 & sleep 4324", timeout=timeout)
        assert result.timed_out
        assert not result.ok
        if result.stdout:
            break
    assert result.stdout == b"begun\n"
    assert time.monotonic() - begun < 100
    assert sbx.exec("pgrep -f 'sleep 432[4]'").exit_code == 1


def test_a_grandchild_that_holds_the_pipe_keeps_a_command_open(sbx):
    result = sbx.exec("(sleep 1; echo late) & exit 5")
    assert (result.stdout, result.exit_code) == (b"late\n", 5)


def test_a_running_command_takes_input_and_signals(sbx):
    script = "trap 'echo hup; exit 9' HUP; echo ready; while read line; do echo got $line; done; sleep 600"
    with sbx.start(script, stdin=True) as command:
        lines = command.stdout()
        assert next(lines) == b"ready\n"
        assert command.write_stdin(b"one\n")
        assert next(lines) == b"got one\n"
        command.signal(signal.SIGHUP)
        assert command.write_stdin(b"wake\n") in (True, False)
        rest = b"".join(lines)
        assert rest.endswith(b"hup\n")
        assert command.wait().exit_code == 9


def test_output_that_nobody_reads_does_not_stall_a_running_command(sbx):
    with sbx.start("head -c 5000000 /dev/zero >&2; echo done") as command:
        assert b"".join(command.stdout()) == b"done\n"
        assert command.wait().exit_code == 0
        assert len(b"".join(command.stderr())) <= 1 << 20


def test_leaving_the_block_kills_the_command(sbx):
    with sbx.start("sleep 4325"):
        pass
    sbx.exec("while pgrep -f 'sleep 432[5]'; do sleep 0.1; done", timeout=60, check=True)


def test_kill_returns_when_the_tree_is_dead(sbx):
    with sbx.start("setsid sleep 4326 & sleep 4326") as command:
        ended = command.kill()
        assert ended.cancelled
    assert sbx.exec("pgrep -f 'sleep 432[6]'").exit_code == 1


def test_many_at_once_do_not_mix(sbx):
    results = {}

    def one(n):
        results[n] = sbx.exec(f"for i in 1 2 3; do echo {n}; sleep 0.1; done; exit {n}")

    threads = [threading.Thread(target=one, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {n: (r.text, r.exit_code) for n, r in results.items()} == {n: (f"{n}\n" * 3, n) for n in range(8)}
