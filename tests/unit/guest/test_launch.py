"""A child that is never a copy of its parent: what it becomes, what it inherits, why it failed."""

from __future__ import annotations

import errno
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stormcell.guest.launch import Launched, Launcher, Program


@pytest.fixture(scope="module")
def launcher() -> Launcher:
    return Launcher()


@contextmanager
def launched(
    launcher: Launcher, *argv: str, cwd: str = "/", path: str = "/usr/bin:/bin"
) -> Iterator[tuple[Launched, int]]:
    """The child, and the end of its output."""
    read, write = os.pipe2(os.O_CLOEXEC)
    null = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    program = Program(
        [os.fsencode(part) for part in argv], os.fsencode(cwd), {b"A": b"\xff=b"}, os.fsencode(path).split(b":")
    )
    child = launcher.start(program, (null, write, write), -1)
    os.close(write)
    os.close(null)
    try:
        yield child, read
    finally:
        os.close(child.pidfd)
        os.close(read)


def ended(launcher: Launcher, *argv: str, **options: str) -> tuple[int, bytes, tuple[str, int] | None]:
    """Exit code, output, and why it was not the program."""
    with launched(launcher, *argv, **options) as (child, read):
        output = b""
        while piece := os.read(read, 65536):
            output += piece
        _, status = os.waitpid(child.pid, 0)
        return os.waitstatus_to_exitcode(status), output, child.failure()


def test_the_child_is_the_program_in_its_folder_with_its_environment_alone(launcher: Launcher, tmp_path: Path) -> None:
    text = "cat; pwd; /usr/bin/env | grep -v -e ^PWD= -e ^SHLVL= -e ^_=; exit 7"
    assert ended(launcher, "sh", "-c", text, cwd=str(tmp_path)) == (7, f"{tmp_path}\nA=".encode() + b"\xff=b\n", None)


def test_it_leads_a_session_and_finds_no_signal_blocked_or_ignored(launcher: Launcher) -> None:
    assert signal.getsignal(signal.SIGPIPE) is signal.SIG_IGN  # ours
    text = "sh -c 'grep -e ^SigBlk -e ^SigIgn /proc/self/status; cut -d\" \" -f6 /proc/$$/stat; echo $$'"
    code, output, failure = ended(launcher, "sh", "-c", f"exec {text}")
    blocked, ignored, session, pid = output.decode().replace("SigBlk:", "").replace("SigIgn:", "").split()
    # 32 and 33 are glibc's own: its posix_spawn, with which Python 3.13 starts programs, leaves them ignored
    ours = sum(1 << number - 1 for number in signal.valid_signals())
    assert (code, failure, int(blocked, 16), int(ignored, 16) & ours) == (0, None, 0, 0)
    assert session == pid


def test_it_inherits_no_descriptor_also_not_an_inheritable_one(launcher: Launcher) -> None:
    fd = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        assert ended(launcher, "sh", "-c", "exec ls /proc/self/fd") == (0, b"0\n1\n2\n3\n", None)  # 3 is its own
    finally:
        os.close(fd)


def test_our_own_signal_mask_is_as_it_was(launcher: Launcher) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})
    try:
        assert ended(launcher, "true") == (0, b"", None)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before | {signal.SIGUSR2}
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_why_it_could_not_be_the_program(launcher: Launcher, tmp_path: Path) -> None:
    assert ended(launcher, "no-such-program") == (127, b"", ("program", errno.ENOENT))
    assert ended(launcher, "/etc/passwd") == (127, b"", ("program", errno.EACCES))
    assert ended(launcher, "true", cwd="/nowhere") == (127, b"", ("cwd", errno.ENOENT))
    text = tmp_path / "text"
    text.write_text("no program")
    text.chmod(0o755)
    assert ended(launcher, str(text)) == (127, b"", ("program", errno.ENOEXEC))


def test_the_path_is_searched_as_a_shell_does(launcher: Launcher, tmp_path: Path) -> None:
    for name, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text(f"#!/bin/sh\necho {name}\n")
        (tmp_path / name / "tool").chmod(mode)
    first, second = f"{tmp_path}/first", f"{tmp_path}/second"
    assert ended(launcher, "tool", path=f"/nowhere:{first}:{second}") == (0, b"second\n", None)
    # what may not be executed is told of rather than what is not there
    assert ended(launcher, "tool", path=f"{first}:/nowhere") == (127, b"", ("program", errno.EACCES))


def test_a_nul_is_refused(launcher: Launcher) -> None:
    with pytest.raises(ValueError, match="null byte"):
        launcher.start(Program([b"a\0b"], b"/", {}, [b"/bin"]), (7, 8, 9), -1)


def test_no_child_is_an_errno(launcher: Launcher) -> None:
    with Path(os.devnull).open() as file, pytest.raises(OSError) as raised:
        launcher.start(Program([b"true"], b"/", {}, [b"/bin"]), (7, 8, 9), file.fileno())  # no cgroup at all
    assert raised.value.errno == errno.EBADF
    assert ended(launcher, "true")[0] == 0


def test_hundreds_leave_nothing_behind(launcher: Launcher) -> None:
    def ours() -> list[int]:
        return [len(list(Path(f"/proc/self/{what}").iterdir())) for what in ("fd", "task")]

    before = ours()
    for number in range(300):
        assert ended(launcher, "sh", "-c", f"exit {number % 100}")[0] == number % 100
    deadline = time.monotonic() + 20
    while any(now > then for now, then in zip(ours(), before, strict=True)) and time.monotonic() < deadline:
        time.sleep(0.01)  # the last thread ends a moment after its child
    fds, tasks = ours()
    assert fds <= before[0] and tasks <= before[1]  # threads of other tests may end meanwhile, and close what they had


def test_its_memory_is_kept_until_nobody_uses_it(launcher: Launcher) -> None:
    with launched(launcher, "sleep", "5") as (child, _):
        while not child.over:
            os.sched_yield()
        assert child.failure() is None
        signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
        os.waitpid(child.pid, 0)
    assert ended(launcher, "true")[0] == 0
    assert child not in launcher._under_way
    assert len(launcher._under_way) == 1
