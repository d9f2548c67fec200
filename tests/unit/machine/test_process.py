import asyncio
import os
import signal
import subprocess
import time

import pytest

from stormcell.machine.model import ProcessIdentity
from stormcell.machine.process import (
    has_ended,
    identity_of,
    kill_and_wait,
    open_pidfd,
    parse_stat,
    read_identity,
    reap,
    spawn,
    wait_ended,
)


@pytest.fixture
def sleeper():
    process = subprocess.Popen(["sleep", "600"])
    yield process
    process.kill()
    process.wait()


def test_a_name_with_parentheses_does_not_confuse():
    line = "77 (a) R (b) S 1 77 77 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 123456 9 9"
    assert parse_stat(line) == ProcessIdentity(77, 123456)


def test_another_process_with_the_same_pid_is_not_meant(sleeper):
    real = identity_of(sleeper.pid)
    assert real is not None
    assert open_pidfd(ProcessIdentity(real.pid, real.start_time - 1)) is None
    fd = open_pidfd(real)
    assert fd is not None and not has_ended(fd)
    os.close(fd)


def test_a_zombie_is_nobody(sleeper):
    real = identity_of(sleeper.pid)
    sleeper.kill()
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert identity_of(sleeper.pid) is None
    assert real is not None and open_pidfd(real) is None


def started(tmp_path, argv, inherited=None):
    with (tmp_path / "log").open("wb") as log:
        return spawn(argv, tmp_path, inherited or {}, log.fileno())


def until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_the_launcher_writes_down_the_process_that_it_becomes(tmp_path):
    pid = started(tmp_path, ["/bin/sleep", "600"])
    try:
        until(lambda: read_identity(tmp_path) is not None)
        assert read_identity(tmp_path) == identity_of(pid)
        assert os.getsid(pid) == pid
        assert (tmp_path / "pid").stat().st_mode & 0o777 == 0o600
    finally:
        fd = os.pidfd_open(pid)
        assert kill_and_wait(fd, 30)
        assert reap(fd) == -signal.SIGKILL
        os.close(fd)


def test_descriptors_arrive_under_their_numbers_and_no_others(tmp_path):
    r, w = os.pipe()
    keep = os.open("/etc/hostname", os.O_RDONLY)  # must not be seen by the child, though our own parent gave it to us
    os.set_inheritable(keep, True)
    pid = started(tmp_path, ["/bin/sh", "-c", "echo hi >/proc/self/fd/40; ls /proc/self/fd"], {w: 40})
    os.close(w)
    assert os.read(r, 10) == b"hi\n"
    os.waitpid(pid, 0)
    numbers = {int(n) for n in (tmp_path / "log").read_text().split()}
    assert numbers - {3, 4} == {0, 1, 2, 40}  # ls has opened the folder
    os.close(r)
    os.close(keep)


def test_waiting_ends_with_the_process_or_at_the_deadline(sleeper):
    async def story():
        fd = os.pidfd_open(sleeper.pid)
        assert not await wait_ended(fd, 0.05)
        sleeper.terminate()
        assert await wait_ended(fd, 30)
        assert reap(fd) == -signal.SIGTERM
        assert reap(fd) is None  # nothing is reaped twice
        os.close(fd)

    asyncio.run(story())
