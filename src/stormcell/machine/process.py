"""Processes, named so that the wrong one is never meant: by pidfd, or by pid and start time."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from stormcell.machine.model import ProcessIdentity
from stormcell.spec.errors import MissingTool

LAUNCHER = 'read -r me <"/proc/$$/stat" && printf "%s\\n" "$me" >"$0/pid" && cd / && exec "$@"'
"""Written by the process about itself before it becomes QEMU (same pid, same start time): a SIGKILL of ours between
fork and record cannot lose a machine."""


def parse_stat(line: str) -> ProcessIdentity:
    """Pid and start time from a line of /proc/PID/stat. Raises ValueError for anything else."""
    pid, _, rest = line.partition(" (")
    fields = rest.rpartition(")")[2].split()
    return ProcessIdentity(int(pid), int(fields[19]))


def identity_of(pid: int) -> ProcessIdentity | None:
    """Who has this pid now; None when nobody or only a zombie has it."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        if line.rpartition(")")[2].split()[0] in {"Z", "X"}:
            return None
        return parse_stat(line)
    except (OSError, ValueError, IndexError):
        return None


def process_state(identity: ProcessIdentity) -> str:
    """One letter as in /proc/PID/stat (R, S, T, ...); empty when it is gone."""
    try:
        line = Path(f"/proc/{identity.pid}/stat").read_text(errors="replace")
        return line.rpartition(")")[2].split()[0] if parse_stat(line) == identity else ""
    except (OSError, ValueError, IndexError):
        return ""


def read_identity(folder: Path) -> ProcessIdentity | None:
    """The identity that a machine's launcher wrote into its folder; None when it never got there."""
    try:
        return parse_stat((folder / "pid").read_text())
    except (OSError, ValueError, IndexError):
        return None


def open_pidfd(identity: ProcessIdentity) -> int | None:
    """A descriptor that means this very process, or None when it is gone.

    The start time is compared after the descriptor was opened, so a pid that was reused meanwhile is noticed.
    """
    try:
        fd = os.pidfd_open(identity.pid)
    except ProcessLookupError:
        return None
    if identity_of(identity.pid) != identity:
        os.close(fd)
        return None
    return fd


def spawn(argv: Sequence[str], folder: Path, inherited: dict[int, int], log: int) -> int:
    """Start `argv` through the launcher in a session of its own and return its pid.

    `inherited` maps descriptors of ours to their numbers in the child, which must be higher than all of ours.
    Standard output and error go to the descriptor `log`; the environment is empty but for PATH and locale.
    """
    actions: list[tuple[int, ...] | tuple[int, int, str, int, int]] = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, log, 1),
        (os.POSIX_SPAWN_DUP2, log, 2),
        # what our own parent left open in us: a machine that outlives us must not hold a make's or a shell's pipe open
        *((os.POSIX_SPAWN_CLOSE, fd) for fd in _inheritable()),
    ]
    actions += [(os.POSIX_SPAWN_DUP2, ours, theirs) for ours, theirs in inherited.items()]
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
    try:
        return os.posix_spawn(
            "/bin/sh",
            ["/bin/sh", "-c", f"umask 077; {LAUNCHER}", str(folder), *argv],
            environment,
            file_actions=actions,
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGINT, signal.SIGPIPE, signal.SIGTERM],
        )
    except FileNotFoundError as error:
        raise MissingTool("/bin/sh is missing", where=argv[0]) from error


def _inheritable() -> list[int]:
    """Descriptors above 2 that a child of ours would get."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        try:
            if int(entry.name) > 2 and os.get_inheritable(int(entry.name)):
                found.append(int(entry.name))
        except OSError:
            continue  # the one that read the folder
    return found


def reap(pidfd: int) -> int | None:
    """The exit status (negative: signal) of a child that has ended; None when it is no child of ours."""
    try:
        result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return None
    if result is None:
        return None
    return result.si_status if result.si_code == os.CLD_EXITED else -result.si_status


def has_ended(pidfd: int) -> bool:
    """Whether the process of this descriptor has ended (a zombie has)."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


async def wait_ended(pidfd: int, timeout: float) -> bool:
    """Wait until the process has ended; False at the deadline (seconds)."""
    if has_ended(pidfd):
        return True
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    watch = os.dup(pidfd)
    loop.add_reader(watch, ended.set)
    try:
        async with asyncio.timeout(timeout):
            await ended.wait()
        return True
    except TimeoutError:
        return has_ended(pidfd)
    finally:
        loop.remove_reader(watch)
        os.close(watch)


def kill_and_wait(pidfd: int, timeout: float) -> bool:
    """SIGKILL and wait, without an event loop: for a start that failed half-way. False at the deadline."""
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return True
    deadline = time.monotonic() + timeout
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(max(0, int((deadline - time.monotonic()) * 1000))))
