"""Removes a sandbox without its Machine object: for the reaper, gc, and a kill of what cannot be attached."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path

from stormcell.machine.process import identity_of, kill_and_wait, open_pidfd, read_identity
from stormcell.sandbox import layers, lease
from stormcell.sandbox.evidence import FilesGone, KillEvidence, ProcessGone, already_gone, remove_files
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.sandbox.record import Record, RecordTorn

KILL_SECONDS = 20.0


def lock_held(folder: Path) -> bool:
    """Whether a process of this sandbox's machine lives: it inherited `lock` with flock held."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EAGAIN, errno.EACCES)
    finally:
        os.close(fd)
    return False


def _lock_holders(folder: Path) -> list[ProcessRef]:
    """Every process with `lock` open and the folder on its command line: the last way to name a machine that no file
    names. Whoever is just starting the machine has the lock open too, and is not the machine."""
    try:
        wanted = (folder / "lock").stat()
    except OSError:
        return []
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            same = any(os.path.samestat(fd.stat(), wanted) for fd in (entry / "fd").iterdir())
            named = same and os.fsencode(folder) in (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if named and (identity := identity_of(int(entry.name))):
            found.append(ProcessRef.of(identity))
    return found


def machines_of(folder: Path) -> list[ProcessRef]:
    """The living processes of a sandbox's machine, normally one. Empty means that it is gone.

    `lock` decides whether there is one; the record or the `pid` file names it, and only with a start time that is
    still true. A file of an earlier boot cannot name a process of this one, for then nobody holds the lock.
    """
    if not lock_held(folder):
        return []
    try:
        record = Record.read(folder)
    except RecordTorn:
        record = None
    launched = read_identity(folder)
    for ref in (record.machine if record else None, ProcessRef.of(launched) if launched else None):
        if ref is not None and ref.alive():
            return [ref]
    return _lock_holders(folder)


def kill_process(ref: ProcessRef, timeout: float = KILL_SECONDS) -> ProcessGone:
    """SIGKILL through a pidfd, then wait until the process is seen dead.

    A process that started at another time than `ref` says is not touched: the one that was meant is gone.
    """
    pidfd = open_pidfd(ref.identity) if ref.identity else None
    if pidfd is None:
        return ProcessGone(ref.pid, ref.start_time, True, None, "was dead", 0.0)
    try:
        begun = time.monotonic()
        dead = kill_and_wait(pidfd, timeout)
        return ProcessGone(ref.pid, ref.start_time, dead, None, "SIGKILL", round(time.monotonic() - begun, 4))
    finally:
        os.close(pidfd)


def remove(folder: Path, reason: str, *, only_overdue: bool = False) -> KillEvidence | None:
    """Kill the machine of `folder` and remove its files. None when the lease was renewed meanwhile and it may live.

    The files stay when a process does not die: they are what names it.
    """
    if not folder.exists():
        return already_gone(folder.name, folder)
    if not lease.claim(folder, reason, only_overdue=only_overdue):
        return None
    processes = tuple(kill_process(ref) for ref in machines_of(folder))
    if not all(process.gone for process in processes):
        return KillEvidence(folder.name, reason, processes, FilesGone(str(folder), False, 0, 0))
    evidence = KillEvidence(folder.name, reason, processes, remove_files(folder))
    layers.collect(folder.parents[1])
    return evidence
