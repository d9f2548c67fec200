"""Start a child: fork, descriptors, session, user, then a program or a function of ours.

A child says on a private pipe why it could not become what it should; silence and end-of-file mean that it did. So
"no such program" is never mistaken for an exit code.
"""

from __future__ import annotations

import fcntl
import grp
import json
import os
import pwd
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

SEARCH_PATH = "/run/stormcell/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OURS = ("stormcell-guest", "/run/stormcell/bin/stormcell-guest")
_REPORT = 3
_AGAIN = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGXFSZ)


class NotStarted(Exception):
    """The command never ran. `stage` is one of fork, cgroup, user, cwd, program."""

    def __init__(self, stage: str, errno: int, message: str) -> None:
        super().__init__(message)
        self.stage = stage
        self.errno = errno


@dataclass(frozen=True)
class Command:
    """What to run and as whom. `user` is name, uid, name:group or uid:gid; None stays who we are."""

    argv: Sequence[str]
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None


@dataclass(frozen=True)
class Child:
    """A started process; the descriptors are ours, non-blocking, and -1 where there is none."""

    pid: int
    pidfd: int
    report: int
    stdin: int
    stdout: int
    stderr: int


def spawn(body: Callable[[], None], *, stdin: bool, enter: Callable[[], None], protected: bool = False) -> Child:
    """Fork a child that leads its own session and calls `enter`, then `body`, which does not return.

    The child gets default signal handling, no descriptor of ours, and an OOM score of 0 unless `protected`. Raises
    NotStarted when there is no room for a process.
    """
    ours: list[int] = []
    theirs: list[int] = []
    try:
        stdin_read, stdin_write = os.pipe2(os.O_CLOEXEC) if stdin else (os.open(os.devnull, os.O_RDONLY), -1)
        theirs.append(stdin_read)
        ours.append(stdin_write)
        for name in ("stdout", "stderr", "report"):
            read, write = os.pipe2(os.O_CLOEXEC)
            if name == "stdout":
                fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, 262144)
            ours.append(read)
            theirs.append(write)
        pid = fork_into(theirs, body, enter, protected=protected)
    except OSError as error:
        for fd in (*ours, *theirs):
            if fd >= 0:
                os.close(fd)
        raise NotStarted("fork", error.errno or 0, os.strerror(error.errno or 0)) from None
    for fd in theirs:
        os.close(fd)
    for fd in ours:
        if fd >= 0:
            os.set_blocking(fd, False)
    return Child(pid, os.pidfd_open(pid), ours[3], ours[0], ours[1], ours[2])


def fork_into(
    fds: Sequence[int], body: Callable[[], None], enter: Callable[[], None], *, protected: bool = False
) -> int:
    """Fork a child whose descriptors 0 to 3 are `fds` (the last its report). Returns its pid. Raises OSError."""
    pid = os.fork()
    if pid == 0:
        _become(fds, body, enter, protected)
    return pid


def _become(fds: Sequence[int], body: Callable[[], None], enter: Callable[[], None], protected: bool) -> NoReturn:
    try:
        signal.set_wakeup_fd(-1)
        for signum in _AGAIN:
            signal.signal(signum, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for place, fd in enumerate(fds):
            if place != fd:
                os.dup2(fd, place, inheritable=place != _REPORT)
        os.closerange(_REPORT + 1, 1 << 20)
        os.setsid()
        _stage("cgroup", enter)
        if not protected:
            _expose()
        body()
    except NotStarted as failure:
        told = {"stage": failure.stage, "errno": failure.errno, "message": str(failure)}
        os.write(_REPORT, json.dumps(told).encode())
    except BaseException as error:
        try:
            told = {"stage": "program", "errno": 0, "message": f"{type(error).__name__}: {error}"[:1000]}
            os.write(_REPORT, json.dumps(told).encode())
        except OSError:
            pass
    finally:
        os._exit(127)


def _expose() -> None:
    """The agent is the last victim of the kernel's OOM killer; a command is an ordinary one."""
    try:
        with open("/proc/self/oom_score_adj", "r+b", buffering=0) as file:
            if file.read().strip() != b"0":
                file.write(b"0")
    except OSError:
        pass


def _stage(name: str, call: Callable[[], None], about: str = "") -> None:
    try:
        call()
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise NotStarted(name, error.errno or 0, f"{about}: {reason}" if about else reason) from None


def run_command(command: Command, extra: Mapping[str, str]) -> NoReturn:
    """Turn the calling child into `command`. Raises NotStarted. The program of ours is served by this very process."""
    account = _account(command.user)
    if command.user is not None:
        _stage("user", account.assume, command.user)
    _stage("cwd", lambda: os.chdir(os.fsencode(command.cwd)), command.cwd)
    env = {**account.environment(), **command.env, **extra}
    if command.argv[0] in OURS:
        run_function(lambda: _ours(command.argv[1:], env))
    argv = [os.fsencode(part) for part in command.argv]
    _stage("program", lambda: os.execvpe(argv[0], argv, env), command.argv[0])
    os._exit(127)


def run_function(call: Callable[[], int]) -> NoReturn:
    """Turn the calling child into `call`; its result is the exit code, an exception is 1 with its text on stderr."""
    os.close(_REPORT)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        fd = ("stdin", "stdout", "stderr").index(name)
        stream = open(fd, mode, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115 - lives on
        setattr(sys, name, stream)
    code = 1
    try:
        code = call()
    except SystemExit as leave:
        code = leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException as error:
        sys.stderr.write(f"stormcell-guest: {type(error).__name__}: {error}\n")
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code & 0xFF)


def _ours(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    from stormcell.guest import commands

    os.environ.clear()
    os.environ.update(env)
    return commands.main(list(arguments))


@dataclass(frozen=True)
class _Account:
    uid: int
    gid: int
    name: str
    home: str
    shell: str
    group: int | None = None

    def assume(self) -> None:
        if os.geteuid() == 0:
            if self.group is None:
                os.initgroups(self.name, self.gid)
            else:
                os.setgroups([self.group])
        gid = self.gid if self.group is None else self.group
        os.setresgid(gid, gid, gid)
        os.setresuid(self.uid, self.uid, self.uid)

    def environment(self) -> dict[str, str]:
        return {
            "PATH": SEARCH_PATH,
            "LANG": "C.UTF-8",
            "HOME": self.home,
            "USER": self.name,
            "LOGNAME": self.name,
            "SHELL": self.shell,
        }


def _account(user: str | None) -> _Account:
    if user is None and os.geteuid() == 0:
        return _Account(0, 0, "root", "/root", "/bin/sh")  # no look at the disk for the common case
    name, _, group = (user or str(os.geteuid())).partition(":")
    gid = _group(group) if group else None
    try:
        entry = pwd.getpwuid(int(name)) if name.isdigit() else pwd.getpwnam(name)
    except KeyError:
        if not name.isdigit():
            raise NotStarted("user", 0, f"{name}: no such user") from None
        uid = int(name)
        return _Account(uid, uid, name, "/", "/bin/sh", uid if gid is None else gid)
    return _Account(entry.pw_uid, entry.pw_gid, entry.pw_name, entry.pw_dir, entry.pw_shell or "/bin/sh", gid)


def _group(name: str) -> int:
    if name.isdigit():
        return int(name)
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        raise NotStarted("user", 0, f"{name}: no such group") from None
