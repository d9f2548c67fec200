from __future__ import annotations

import asyncio
import errno
import hashlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from stormcell.guest import wire
from stormcell.guest.trees import MARK
from stormcell.machine.commands import CommandNotStarted, Exit, start_command
from stormcell.spec.errors import OutcomeUnknown, SandboxError
from tests.unit.guest.agent_process import asynchronous, communicate, connected, run, running_agent, until

OK = Exit(exit_code=0, signal=None, timed_out=False)
ROOT = os.geteuid() == 0
MIB = 1024 * 1024


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(pid: int) -> None:
    await until(lambda: not alive(pid))


@asynchronous
async def test_streams_are_kept_apart_and_bytes_are_bytes() -> None:
    async with connected() as channel:
        code = r"printf '\0\377out'; printf 'err\n' >&2; exit 7"
        assert await run(channel, shell=code) == (Exit(7, None, False), b"\0\xffout", b"err\n")


@asynchronous
async def test_arguments_may_be_any_bytes() -> None:
    async with connected() as channel:
        argv: list[str | bytes] = ["printf", "%s|", b"\xff\xfe", "new\nline", "", "ü", "$HOME"]
        assert await run(channel, argv) == (OK, b"\xff\xfe|new\nline||\xc3\xbc|$HOME|", b"")


@asynchronous
async def test_the_environment_is_a_known_one_and_none_of_the_agents() -> None:
    async with connected() as channel:
        _, out, _ = await run(channel, ["env", "-0"], env={"A": "1\n2", "LANG": "C"}, cwd="/usr")
        env = dict(line.split("=", 1) for line in out.decode().split("\0") if line)
        assert env["A"] == "1\n2" and env["LANG"] == "C"
        assert env["PATH"].startswith("/run/stormcell/bin:")
        assert {"HOME", "USER", "LOGNAME", "SHELL"} < set(env)
        assert "CANARY" not in env
        assert set(env) - {"A", "LANG", "PATH", "HOME", "USER", "LOGNAME", "SHELL", MARK} == set()


@asynchronous
async def test_a_command_inherits_nothing_of_the_agent() -> None:
    code = """
import json, os
fds = sorted(map(int, os.listdir("/proc/self/fd")))
print(json.dumps([fds, os.getsid(0) == os.getpid(), os.getcwd(), open("/proc/self/status").read()]))
"""
    async with connected() as channel:
        _, out, _ = await run(channel, [sys.executable, "-S", "-c", code], cwd="/usr")
        fds, leads, cwd, status = json.loads(out)
        assert fds[:3] == [0, 1, 2] and len(fds) == 4  # the fourth is the listing itself
        assert leads and cwd == "/usr"
        blocked = [line.split()[1] for line in status.splitlines() if line.startswith("SigBlk")]
        assert int(blocked[0], 16) == 0
        _, out, _ = await run(channel, shell="trap - PIPE; grep SigIgn /proc/self/status")
        # signals 32 and 33 are the C library's own: nobody can reset them, and a test may inherit them ignored
        assert int(out.split()[1], 16) & ~(0b11 << 31) == 0


@asynchronous
async def test_without_stdin_it_is_at_its_end() -> None:
    async with connected() as channel:
        assert await run(channel, ["cat"]) == (OK, b"", b"")


@asynchronous
async def test_ten_megabytes_come_back() -> None:
    data = os.urandom(10 * MIB)
    async with connected() as channel:
        assert await run(channel, ["cat"], stdin=data) == (OK, data, b"")


@asynchronous
async def test_a_hundred_megabytes_are_streamed_within_a_window() -> None:
    code = "import sys\nfor n in range(100): sys.stdout.buffer.write(bytes([n]) * 1048576)"
    wanted, got = hashlib.sha256(), hashlib.sha256()
    for n in range(100):
        wanted.update(bytes([n]) * MIB)
    async with running_agent() as agent:
        channel = await agent.channel()
        command = await start_command(channel, [sys.executable, "-S", "-c", code])
        peak = 0
        async for chunk in command.stdout:
            got.update(chunk)
            peak = max(peak, int(Path(f"/proc/{agent.process.pid}/statm").read_text().split()[1]) * 4096)
        assert await command.wait() == OK
        assert got.digest() == wanted.digest()
        assert peak < 64 * MIB


@asynchronous
async def test_a_reader_that_stops_stops_only_its_own_stream() -> None:
    async with connected() as channel:
        lazy = await start_command(channel, None, "head -c 30000000 /dev/zero")
        errors = await start_command(channel, None, "head -c 9000000 /dev/zero; head -c 9000000 /dev/zero >&2")
        first = await anext(lazy.stdout)
        data = os.urandom(5 * MIB)
        assert await run(channel, ["cat"], stdin=data) == (OK, data, b"")
        _, out, err = await communicate(errors)
        assert len(out) == len(err) == 9_000_000
        unread = sum(len(chunk) for chunk in lazy._exchange._incoming[wire.Kind.OUTPUT].chunks)
        assert unread <= wire.OUTPUT_WINDOW
        end, out, _ = await communicate(lazy)
        assert end == OK and len(first) + len(out) == 30_000_000


@asynchronous
async def test_the_end_waits_for_both_pipes() -> None:
    async with connected() as channel:
        end, out, _ = await run(channel, shell="(sleep 0.3; echo late) & exit 3")
        assert (end, out) == (Exit(3, None, False), b"late\n")


@pytest.mark.parametrize(
    "hold", ["sleep 1000", "setsid sleep 1000 & exit 3", "setsid sh -c 'sleep 1000 & wait' & sleep 1000"]
)
@asynchronous
async def test_a_timeout_kills_the_whole_tree(hold: str) -> None:
    async with connected() as channel:
        began = time.monotonic()
        for timeout in (1, 10):  # a machine that stood still for the shorter one did not come to the `exit`
            command = await start_command(channel, None, f"echo $$; {hold}", timeout=timeout)
            end, out, _ = await communicate(command)
            assert end.timed_out and end.left == 0
            if out and ("exit 3" not in hold or end.exit_code is not None):
                break
        assert end.exit_code == 3 if "exit 3" in hold else end.signal == signal.SIGKILL
        assert time.monotonic() - began < 60
        await gone(int(out))


@asynchronous
async def test_what_a_finished_command_left_in_the_background_lives() -> None:
    async with connected() as channel:
        _, out, _ = await run(channel, shell="setsid sleep 1000 >/dev/null 2>&1 & echo $!")
        pid = int(out)
        await asyncio.sleep(0.2)
        assert alive(pid)
        os.kill(pid, signal.SIGKILL)


@asynchronous
async def test_a_timeout_while_nobody_reads_keeps_what_was_written() -> None:
    async with connected() as channel:
        for timeout in (1, 10):  # a machine that stood still for the shorter one wrote little
            command = await start_command(channel, None, "head -c 5000000 /dev/zero", timeout=timeout)
            await asyncio.sleep(timeout + 2)
            end, out, _ = await communicate(command)
            assert end.timed_out
            if len(out) >= wire.OUTPUT_WINDOW:
                break
        assert wire.OUTPUT_WINDOW <= len(out) < 5_000_000


@pytest.mark.parametrize(
    ("options", "stage", "number"),
    [
        ({"argv": ["no-such-program"]}, "program", errno.ENOENT),
        ({"argv": ["/etc/passwd"]}, "program", errno.EACCES),
        ({"argv": ["/"]}, "program", errno.EACCES),
        ({"argv": ["true"], "cwd": "/no/such"}, "cwd", errno.ENOENT),
        ({"argv": ["true"], "cwd": "/etc/passwd"}, "cwd", errno.ENOTDIR),
        ({"argv": ["true"], "user": "no-such-user"}, "user", 0),
        ({"argv": ["true"], "user": "root:no-such-group"}, "user", 0),
    ],
)
@asynchronous
async def test_what_never_ran_has_no_exit_code(options: dict[str, object], stage: str, number: int) -> None:
    async with connected() as channel:
        with pytest.raises(CommandNotStarted) as caught:
            await run(channel, **options)  # type: ignore[arg-type]
        assert (caught.value.stage, caught.value.errno) == (stage, number)
        assert await run(channel, ["true"]) == (OK, b"", b"")


@pytest.mark.skipif(ROOT, reason="root may become anybody")
@asynchronous
async def test_an_ordinary_agent_cannot_become_root() -> None:
    async with connected() as channel:
        with pytest.raises(CommandNotStarted) as caught:
            await run(channel, ["true"], user="root")
        assert caught.value.stage == "user"
        assert caught.value.errno in (errno.EPERM, errno.EINVAL)  # the latter in a user namespace without root


@pytest.mark.skipif(not ROOT, reason="only root may become somebody else")
@pytest.mark.parametrize(("user", "expected"), [("nobody", "65534 65534"), ("1234", "1234 1234"), ("1234:0", "1234 0")])
@asynchronous
async def test_a_command_runs_as_the_user_asked_for(user: str, expected: str) -> None:
    async with connected() as channel:
        end, out, _ = await run(channel, shell="echo $(id -u) $(id -g); id -G", user=user)
        ids, groups = out.decode().splitlines()
        assert (end, ids) == (OK, expected)
        assert "0" not in groups.split() or expected.endswith(" 0")


@asynchronous
async def test_a_signal_reaches_the_group() -> None:
    async with connected() as channel:
        command = await start_command(
            channel, None, "trap 'echo got; exit 5' USR1; echo up; while :; do sleep 0.05; done"
        )
        assert await anext(command.stdout) == b"up\n"
        await command.signal(signal.SIGUSR1)
        assert (await communicate(command))[:2] == (Exit(5, None, False), b"got\n")  # the shell tells of its sleep
        command = await start_command(channel, None, "sleep 1000 & echo up; wait")
        assert await anext(command.stdout) == b"up\n"
        await command.signal(signal.SIGTERM)
        assert (await communicate(command))[0] == Exit(None, signal.SIGTERM, False)


@asynchronous
async def test_a_cancelled_command_is_killed_and_says_so() -> None:
    async with connected() as channel:
        command = await start_command(channel, None, "setsid sleep 1000 & yes")
        await anext(command.stdout)
        await command.cancel()
        end = await command.wait()
        assert end.cancelled and end.signal == signal.SIGKILL and not end.timed_out
        await gone(command.pid)


@asynchronous
async def test_input_that_nobody_reads_is_swallowed() -> None:
    async with connected() as channel:
        assert await run(channel, ["true"], stdin=bytes(5 * MIB)) == (OK, b"", b"")
        code = "exec <&-; sleep 0.5; echo done"
        assert await run(channel, shell=code, stdin=bytes(5 * MIB)) == (OK, b"done\n", b"")


@asynchronous
async def test_a_hang_up_kills_what_runs_for_it() -> None:
    async with running_agent(ports=2) as agent:
        first, second = await agent.channel(), await agent.channel()
        doomed = await start_command(first, None, "setsid sleep 1000 & echo $!; wait")
        other = await start_command(second, None, "sleep 1; echo fine")
        grandchild = int(await anext(doomed.stdout))
        await first.close()
        with pytest.raises(OutcomeUnknown):
            await doomed.wait()
        await gone(doomed.pid)
        await gone(grandchild)
        assert await communicate(other) == (OK, b"fine\n", b"")


@asynchronous
async def test_an_agent_that_dies_leaves_the_outcome_unknown() -> None:
    async with running_agent() as agent:
        channel = await agent.channel()
        command = await start_command(channel, ["sleep", "3"])
        os.kill(agent.process.pid, signal.SIGKILL)
        with pytest.raises(OutcomeUnknown):
            await command.wait()
        with pytest.raises(SandboxError, match="closed"):
            await run(channel, ["true"])
        agent.process.poll = lambda: None  # type: ignore[method-assign]


@asynchronous
async def test_our_own_program_needs_no_interpreter_start() -> None:
    async with connected() as channel:
        end, out, err = await run(channel, ["stormcell-guest", "no-such"])
        assert end.exit_code == 2 and out == b"" and err.startswith(b"usage: stormcell-guest")
        end, out, err = await run(channel, ["stormcell-guest", "service", "--help"])
        assert end == OK and b"supervisor" in out and err == b""


@asynchronous
async def test_too_many_requests_are_refused_and_served_later() -> None:
    async with connected() as channel:
        commands = [await start_command(channel, ["cat"], stdin=True) for _ in range(64)]
        with pytest.raises(CommandNotStarted, match="64 requests"):
            await run(channel, ["true"])
        for command in commands:
            await command.close_stdin()
        assert {await command.wait() for command in commands} == {OK}
        assert await run(channel, ["true"]) == (OK, b"", b"")


@asynchronous
async def test_this_host_is_never_resumed() -> None:
    from stormcell.machine.channel import Identity

    async with connected() as channel:
        with pytest.raises(SandboxError, match="no such request"):
            await channel.resume(Identity("x", "0" * 32, "g"))


@pytest.mark.parametrize(
    "options",
    [
        {"argv": ["a\0b"]},
        {"shell": ":", "env": {"A": "\0"}},
        {"argv": ["x" * 70_000]},
        {"argv": ["true"], "timeout": float("inf")},
        {},
    ],
)
@asynchronous
async def test_what_no_command_can_be_is_refused_before_sending(options: dict[str, object]) -> None:
    async with connected() as channel:
        with pytest.raises(SandboxError):
            await run(channel, **options)  # type: ignore[arg-type]


@asynchronous
async def test_many_commands_at_once() -> None:
    async with connected() as channel:
        answers = await asyncio.gather(*(run(channel, ["echo", str(n)]) for n in range(40)))
        assert [out for _, out, _ in answers] == [f"{n}\n".encode() for n in range(40)]
