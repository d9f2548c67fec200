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

from stormcell.guest import nodes
from stormcell.guest.launch import Launched, Launcher, Program
from stormcell.guest.trees import Tree

SEARCH_PATH = "/run/stormcell/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
OURS = ("stormcell-guest", "/run/stormcell/bin/stormcell-guest")
_REPORT = 3
_AGAIN = (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD, signal.SIGXFSZ)


class NotStarted(Exception):
    """The command never ran. `stage` is one of fork, cgroup, node, user, cwd, program."""

    def __init__(self, stage: str, errno: int, message: str) -> None:
        super().__init__(message)
        self.stage = stage
        self.errno = errno


@dataclass(frozen=True)
class Command:
    """What to run, as whom, and in which node.

    `user` is name, uid, name:group or uid:gid; None stays who we are. The node None is where we are.
    """

    argv: Sequence[str]
    cwd: str = "/"
    env: Mapping[str, str] = field(default_factory=dict)
    user: str | None = None
    node: str | None = None


@dataclass(frozen=True)
class Child:
    """A started process; the descriptors are ours, non-blocking, and -1 where there is none."""

    pid: int
    pidfd: int
    report: int
    stdin: int
    stdout: int
    stderr: int
    launched: Launched | None = None
    about: Mapping[str, str] = field(default_factory=dict)

    def failure(self) -> bytes:
        """At the end of `report`: why a launched child is not the program, as others say it there; empty when it is."""
        found = self.launched.failure() if self.launched else None
        if found is None:
            return b""
        stage, number = found
        about = self.about.get(stage, "")
        return _told(stage, number, f"{about}: {os.strerror(number)}" if about else os.strerror(number))


def spawn_command(command: Command, tree: Tree, *, stdin: bool, launcher: Launcher | None) -> Child:
    """Start `command` as a session of its own in `tree`: without a copy of this process where that can be done.

    Raises NotStarted when there is no room for a process.
    """
    program = _program(command, tree) if launcher else None
    if launcher and program:
        pipes = _Pipes(stdin)
        if min(pipes.theirs) > 2:
            try:
                launched = _launched(launcher, program, pipes.theirs[:3], tree, command.node)
                about = {"program": command.argv[0], "cwd": command.cwd, "node": command.node or ""}
                return pipes.child(launched.pid, launched.pidfd, launched, about)
            except (OSError, ValueError):
                pass  # a copy of ours enters also a group whose limit is reached, and says what a text lacks
        pipes.close()
    return spawn(lambda: run_command(command, tree.environment()), stdin=stdin, enter=tree.enter)


def _launched(launcher: Launcher, program: Program, fds: Sequence[int], tree: Tree, node: str | None) -> Launched:
    namespaces = nodes.opened(node) if node is not None else []
    try:
        return launcher.start(program, fds, tree.entrance(), namespaces)
    finally:
        nodes.close(namespaces)


def _program(command: Command, tree: Tree) -> Program | None:
    """What the child becomes by system calls alone; None for what takes more: another user, a function of ours."""
    if command.user is not None or os.geteuid() != 0 or command.argv[0] in OURS:
        return None
    env = {**_ROOT.environment(), **command.env, **_whereabouts(command.node), **tree.environment()}
    if any("=" in key for key in env):
        return None
    fsencode = os.fsencode
    return Program(
        [fsencode(part) for part in command.argv],
        fsencode(command.cwd),
        {fsencode(key): fsencode(value) for key, value in env.items()},
        fsencode(env["PATH"]).split(b":"),
    )


class _Pipes:
    """The descriptors of one child: ours, and theirs in their order (the report last). Raises NotStarted."""

    def __init__(self, stdin: bool) -> None:
        self._ours: list[int] = []
        self.theirs: list[int] = []
        try:
            read, write = os.pipe2(os.O_CLOEXEC) if stdin else (os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC), -1)
            self.theirs.append(read)
            self._ours.append(write)
            for name in ("stdout", "stderr", "report"):
                read, write = os.pipe2(os.O_CLOEXEC)
                self._ours.append(read)
                self.theirs.append(write)
                if name == "stdout":
                    fcntl.fcntl(read, fcntl.F_SETPIPE_SZ, 262144)
        except OSError as error:
            self.close()
            raise NotStarted("fork", error.errno or 0, os.strerror(error.errno or 0)) from None

    def close(self) -> None:
        """There is no child."""
        for fd in (*self._ours, *self.theirs):
            if fd >= 0:
                os.close(fd)

    def child(
        self, pid: int, pidfd: int, launched: Launched | None = None, about: Mapping[str, str] | None = None
    ) -> Child:
        """Let go of the child's ends."""
        for fd in self.theirs:
            os.close(fd)
        for fd in self._ours:
            if fd >= 0:
                os.set_blocking(fd, False)
        stdin, stdout, stderr, report = self._ours
        return Child(pid, pidfd, report, stdin, stdout, stderr, launched, about or {})


def spawn(body: Callable[[], None], *, stdin: bool, enter: Callable[[], None], protected: bool = False) -> Child:
    """Fork a child that leads its own session and calls `enter`, then `body`, which does not return.

    The child gets default signal handling, no descriptor of ours, and an OOM score of 0 unless `protected`. Raises
    NotStarted when there is no room for a process.
    """
    pipes = _Pipes(stdin)
    try:
        pid = fork_into(pipes.theirs, body, enter, protected=protected)
    except OSError as error:
        pipes.close()
        raise NotStarted("fork", error.errno or 0, os.strerror(error.errno or 0)) from None
    return pipes.child(pid, os.pidfd_open(pid))


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
        os.write(_REPORT, _told(failure.stage, failure.errno, str(failure)))
    except BaseException as error:
        try:
            os.write(_REPORT, _told("program", 0, f"{type(error).__name__}: {error}"[:1000]))
        except OSError:
            pass
    finally:
        os._exit(127)


def _told(stage: str, errno: int, message: str) -> bytes:
    return json.dumps({"stage": stage, "errno": errno, "message": message}).encode()


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
    if command.node is not None:
        _enter(command.node)
    account = _account(command.user)
    if command.user is not None:
        _stage("user", account.assume, command.user)
    _stage("cwd", lambda: os.chdir(os.fsencode(command.cwd)), command.cwd)
    env = {**account.environment(), **command.env, **_whereabouts(command.node), **extra}
    if command.argv[0] in OURS:
        run_function(lambda: _ours(command.argv[1:], env))
    argv = [os.fsencode(part) for part in command.argv]
    _stage("program", lambda: os.execvpe(argv[0], argv, env), command.argv[0])
    os._exit(127)


def run_function(call: Callable[[], int]) -> NoReturn:
    """Turn the calling child into `call`; see `code_of` for its exit code."""
    os.close(_REPORT)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        fd = ("stdin", "stdout", "stderr").index(name)
        stream = open(fd, mode, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115 - lives on
        setattr(sys, name, stream)
    code = code_of(call)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = code or 1
    os._exit(code & 0xFF)


def code_of(call: Callable[[], int]) -> int:
    """What `call` returns, as an exit code; an exception is 1 with its text on stderr."""
    try:
        return call()
    except SystemExit as leave:
        return leave.code if isinstance(leave.code, int) else int(leave.code is not None)
    except BaseException as error:
        sys.stderr.write(f"stormcell-guest: {type(error).__name__}: {error}\n")
        return 1


def run_as_we_are(call: Callable[[], int], extra: Mapping[str, str], node: str | None = None) -> NoReturn:
    """Turn the calling child into `call`, in the surroundings that a command without a user has."""
    if node is not None:
        _enter(node)
    _surround({**_account(None).environment(), **_whereabouts(node), **extra})
    os.chdir("/")
    run_function(call)


def _ours(arguments: Sequence[str], env: Mapping[str, str]) -> int:
    from stormcell.guest import commands

    _surround(env)
    return commands.main(list(arguments))


def _enter(node: str) -> None:
    try:
        nodes.enter(node)
    except OSError as error:
        raise NotStarted("node", error.errno or 0, error.strerror or str(error)) from None


def _whereabouts(node: str | None) -> dict[str, str]:
    return {} if node is None else {nodes.VARIABLE: node}


def _surround(env: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(env)


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


_ROOT = _Account(0, 0, "root", "/root", "/bin/sh")
"""No look at the disk for the common case."""


def _account(user: str | None) -> _Account:
    if user is None and os.geteuid() == 0:
        return _ROOT
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
