"""From a spec to a live QEMU process whose sockets already listen."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from stormcell.machine.argv import Ends
from stormcell.machine.host import find_qemu
from stormcell.machine.model import AGENT_PORTS, QMP_PORTS, ProcessIdentity
from stormcell.machine.process import kill_and_wait, parse_stat, reap, spawn
from stormcell.machine.sockets import listen
from stormcell.spec.errors import HostError, MachineError, NoSpace
from stormcell.spec.home import private_folder


@dataclass(frozen=True)
class Launched:
    """A process that was started."""

    identity: ProcessIdentity
    pidfd: int


Argv = Callable[[Path, Ends], list[str]]
"""QEMU's command line, from its path and the numbers of its sockets."""


def launch(argv: Argv, folder: Path) -> Launched:
    """Start QEMU in `folder`, to boot or to wait for what it goes on from; a failure leaves no process.

    Raises HostError, NoSpace, MissingTool, MachineError.

    The process holds a lock on `folder/lock` for as long as it lives, and its pid and start time are in `folder/pid`.
    """
    qemu = find_qemu()
    private_folder(folder)
    try:
        with ExitStack() as ours:
            return _launch(qemu.path, argv, folder, ours)
    except OSError as error:
        kind = NoSpace if error.errno == 28 else HostError
        raise kind("the machine cannot be started", where=str(folder), detail=str(error)) from error


def _launch(qemu: Path, argv: Argv, folder: Path, ours: ExitStack) -> Launched:
    def opened(path: Path, flags: int) -> int:
        fd = os.open(path, flags | os.O_CLOEXEC, 0o600)
        ours.callback(os.close, fd)
        return fd

    log = opened(folder / "qemu.log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    lock = opened(folder / "lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise MachineError("a machine already runs in this folder", where=str(folder)) from error
    # with the lock held: a socket is replaced by its path, and a live machine's must not be
    (folder / "pid").unlink(missing_ok=True)
    kinds = [("qmp", QMP_PORTS), ("agent", AGENT_PORTS)]
    sockets = {
        kind: [ours.enter_context(listen(folder / f"{kind}.{n}.sock")) for n in range(count)] for kind, count in kinds
    }
    passed = [end.fileno() for ends in sockets.values() for end in ends] + [lock]
    # numbers above all of ours, so that no dup2 in the child overwrites a descriptor that is still to be passed
    inherited = {fd: number for number, fd in enumerate(passed, start=max(*passed, log) + 1)}
    ends = Ends(*([inherited[end.fileno()] for end in sockets[kind]] for kind, _ in kinds))
    pid = spawn(argv(qemu, ends), folder, inherited, log)
    pidfd = os.pidfd_open(pid)  # our child, not reaped: the pid cannot be another's
    try:
        identity = parse_stat(Path(f"/proc/{pid}/stat").read_text(errors="replace"))
    except BaseException:
        kill_and_wait(pidfd, 10)
        reap(pidfd)
        os.close(pidfd)
        raise
    return Launched(identity, pidfd)
