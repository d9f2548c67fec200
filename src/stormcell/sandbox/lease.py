"""The durable ttl: a file with the moment after which nobody needs the sandbox.

One line, written in place with one pwrite under flock. In place, so that the lock and the bytes share an inode: a
renewal and the claim of a reaper exclude each other, and a renewal after the claim fails instead of reviving a
sandbox that is being removed. Not synced to the disk: it must outlive its writer, not the host, for a lease of
another boot is over anyway.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from stormcell.sandbox.hostclock import boot_id, boottime_ns
from stormcell.spec.errors import SandboxNotFound

_WIDTH = 512


@dataclass(frozen=True)
class Lease:
    """Until `deadline_ns` on CLOCK_BOOTTIME of the boot `boot_id`. `claimed` says who removes the sandbox and why."""

    deadline_ns: int
    boot_id: str
    ttl_seconds: float
    claimed: str = ""

    @classmethod
    def starting_now(cls, ttl_seconds: float) -> Lease:
        """A whole ttl from this moment."""
        return cls(boottime_ns() + int(ttl_seconds * 1e9), boot_id(), ttl_seconds)

    def left_seconds(self, now_ns: int, boot: str) -> float:
        """Seconds until it is over; not positive when it is over, or of another boot."""
        return (self.deadline_ns - now_ns) / 1e9 if boot == self.boot_id else 0.0

    def overdue(self, now_ns: int, boot: str) -> bool:
        """Whether the sandbox may be removed."""
        return bool(self.claimed) or self.left_seconds(now_ns, boot) <= 0


def _encode(lease: Lease) -> bytes:
    return json.dumps(asdict(lease)).encode().ljust(_WIDTH - 1) + b"\n"


def _decode(text: bytes) -> Lease | None:
    try:
        data = json.loads(text)
        return Lease(int(data["deadline_ns"]), str(data["boot_id"]), float(data["ttl_seconds"]), str(data["claimed"]))
    except (ValueError, TypeError, KeyError):
        return None


@contextmanager
def _locked(folder: Path, flags: int, lock: int) -> Iterator[int]:
    fd = os.open(folder / "lease", flags | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, lock)
        yield fd
    finally:
        os.close(fd)


def begin(folder: Path, ttl_seconds: float) -> Lease:
    """Write the first lease of a new sandbox."""
    lease = Lease.starting_now(ttl_seconds)
    with _locked(folder, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as fd:
        os.pwrite(fd, _encode(lease), 0)
    return lease


def read(folder: Path) -> Lease | None:
    """None when there is none, or it is torn."""
    try:
        with _locked(folder, os.O_RDONLY, fcntl.LOCK_SH) as fd:
            return _decode(os.pread(fd, _WIDTH, 0))
    except OSError:
        return None


def renew(folder: Path, ttl_seconds: float) -> Lease:
    """A whole ttl from now. Raises SandboxNotFound when the sandbox is gone or claimed by a remover."""
    try:
        with _locked(folder, os.O_RDWR, fcntl.LOCK_EX) as fd:
            old = _decode(os.pread(fd, _WIDTH, 0))
            if old is not None and old.claimed:
                raise SandboxNotFound(f"the sandbox is gone: {old.claimed}", where=folder.name)
            lease = Lease.starting_now(ttl_seconds)
            os.pwrite(fd, _encode(lease), 0)
            return lease
    except FileNotFoundError as error:
        raise SandboxNotFound("the sandbox is gone", where=folder.name) from error


def claim(folder: Path, reason: str, *, only_overdue: bool) -> bool:
    """Take the right to remove the sandbox; renewals fail from here on. False when it was renewed meanwhile.

    A second claim succeeds as well: the first claimer may have died, and removing twice is harmless.
    """
    try:
        with _locked(folder, os.O_RDWR | os.O_CREAT, fcntl.LOCK_EX) as fd:
            lease = _decode(os.pread(fd, _WIDTH, 0)) or Lease(0, boot_id(), 0.0)
            if only_overdue and not lease.overdue(boottime_ns(), boot_id()):
                return False
            os.pwrite(fd, _encode(Lease(lease.deadline_ns, lease.boot_id, lease.ttl_seconds, reason[:64])), 0)
            return True
    except FileNotFoundError:
        return True
    except OSError as error:
        # a lease that is written in place needs no room, so there was none, and nobody can renew it
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        raise
