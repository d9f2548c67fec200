"""The pages of a machine's memory that are its own: found, copied out of one process, put into another.

A restored machine maps its template's memory copy-on-write, so what it wrote since are anonymous pages of its
process, and the page map tells them from those of the file (Documentation/admin-guide/mm/pagemap.rst).
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.machine.model import ProcessIdentity
from stormcell.spec.errors import HostError, MachineDied, MachineError, StormcellError

PAGE = mmap.PAGESIZE
_IOV_MAX = 1024
_PRIVATE = bytes(top & 0b1100_0000 != 0 and top & 0b0010_0000 == 0 for top in range(256))
"""By the highest byte of an entry: bit 63 is set when present, 62 when swapped, 61 when of a file or shared."""
_RUN = re.compile(rb"\x01+")

Run = tuple[int, int]
"""Offset and length in bytes, from the start of the guest's memory."""


class _Vector(ctypes.Structure):
    """struct iovec."""

    _fields_ = (("base", ctypes.c_size_t), ("length", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Pages:
    """Pages of one machine, one after the other in a file (or memory file) from its start. The descriptor is ours."""

    runs: Sequence[Run]
    fd: int

    @property
    def bytes(self) -> int:
        """All together."""
        return sum(length for _, length in self.runs)

    def close(self) -> None:
        """Give the memory back."""
        os.close(self.fd)


def region(identity: ProcessIdentity, memory: Path) -> tuple[int, int]:
    """Where the process has mapped `memory`: first address and the one behind the last. Raises MachineError."""
    wanted = memory.stat()
    device = f"{os.major(wanted.st_dev):02x}:{os.minor(wanted.st_dev):02x}"
    low = high = 0
    for line in _read_maps(identity).splitlines():
        fields = line.split(maxsplit=5)
        if fields[3] == device and int(fields[4]) == wanted.st_ino:
            first, behind = (int(text, 16) for text in fields[0].split("-"))
            low, high = low or first - int(fields[2], 16), behind
    if not low:
        raise MachineError("the machine's memory is not where its record says", where=str(memory))
    return low, high


def _read_maps(identity: ProcessIdentity) -> str:
    try:
        return Path(f"/proc/{identity.pid}/maps").read_text()
    except OSError as error:
        raise _refused(error, identity) from error


def private_runs(identity: ProcessIdentity, low: int, high: int) -> list[Run]:
    """What the process holds of its own between two addresses, neighbours joined. It must not run meanwhile."""
    try:
        fd = os.open(f"/proc/{identity.pid}/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        try:
            entries = os.pread(fd, (high - low) // PAGE * 8, low // PAGE * 8)
        finally:
            os.close(fd)
    except OSError as error:
        raise _refused(error, identity) from error
    return runs_of(entries)


def runs_of(entries: bytes) -> list[Run]:
    """From the entries of a page map, 8 bytes for each page (little endian)."""
    marks = entries[7::8].translate(_PRIVATE)
    return [(found.start() * PAGE, (found.end() - found.start()) * PAGE) for found in _RUN.finditer(marks)]


class Room:
    """Memory to copy pages into, allocated before the guest is stopped: what is left to do then is to copy.

    Taking 30 MB of fresh memory costs about as much as filling it four times.
    """

    def __init__(self, size: int) -> None:
        self._fd = os.memfd_create("stormcell-pages", os.MFD_CLOEXEC)
        self._size = max(size, PAGE)
        try:
            os.ftruncate(self._fd, self._size)
            self._map = mmap.mmap(self._fd, self._size, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE)
        except BaseException:
            os.close(self._fd)
            raise

    def copy(self, identity: ProcessIdentity, low: int, runs: Sequence[Run]) -> Pages:
        """Copy `runs` of a process that stands still; the room is used up. Raises HostError, MachineDied."""
        total = sum(length for _, length in runs)
        with self._map:
            if total > self._size:
                os.ftruncate(self._fd, total)
                self._map.resize(total)
            if total:
                _transfer(_libc.process_vm_readv, identity, low, runs, self._map)
        os.ftruncate(self._fd, total)
        fd, self._fd = self._fd, -1
        return Pages(tuple(runs), fd)

    def close(self) -> None:
        """Give it back unless it was used. Harmless when repeated."""
        if self._fd >= 0:
            self._map.close()
            os.close(self._fd)
            self._fd = -1


def put_in(identity: ProcessIdentity, low: int, pages: Pages) -> None:
    """Copy pages into a process that does not run its guest yet. Raises HostError, MachineDied."""
    if pages.runs:
        # MAP_PRIVATE, since ctypes wants a writable buffer to take an address from; nothing is written
        with mmap.mmap(pages.fd, pages.bytes, flags=mmap.MAP_PRIVATE) as source:
            _transfer(_libc.process_vm_writev, identity, low, pages.runs, source)


def put_back(identity: ProcessIdentity, memory: Path) -> None:
    """Make what a waiting process wrote into its memory while it started as it is in the file behind that."""
    low, high = region(identity, memory)
    runs = private_runs(identity, low, high)
    total = sum(length for _, length in runs)
    if total:
        with mmap.mmap(-1, total) as held, memory.open("rb") as file:
            for offset, length in runs:
                held.write(os.pread(file.fileno(), length, offset).ljust(length, b"\0"))
            _transfer(_libc.process_vm_writev, identity, low, runs, held)


def _transfer(call: Any, identity: ProcessIdentity, low: int, runs: Sequence[Run], ours: mmap.mmap) -> None:
    anchor = ctypes.c_char.from_buffer(ours)
    address = ctypes.addressof(anchor)
    try:
        for batch in _batches(runs):
            size = sum(length for _, length in batch)
            theirs = (_Vector * len(batch))(*(_Vector(low + offset, length) for offset, length in batch))
            mine = _Vector(address, size)
            arguments = (ctypes.byref(mine), 1, theirs, len(batch), 0)
            done = call(identity.pid, *map(_long, arguments))
            if done != size:
                number = ctypes.get_errno() if done < 0 else errno.EFAULT
                raise _refused(OSError(number, os.strerror(number)), identity)
            address += size
    finally:
        del anchor


def _long(value: Any) -> Any:
    return ctypes.c_ulong(value) if isinstance(value, int) else value


def _batches(runs: Sequence[Run]) -> Iterator[Sequence[Run]]:
    """As many as one call takes, and not more bytes than it can report."""
    batch: list[Run] = []
    size = 0
    for run in runs:
        if batch and (len(batch) == _IOV_MAX or size + run[1] > 1 << 30):
            yield batch
            batch, size = [], 0
        batch.append(run)
        size += run[1]
    if batch:
        yield batch


def _refused(error: OSError, identity: ProcessIdentity) -> StormcellError:
    if error.errno in (errno.ESRCH, errno.ENOENT):
        return MachineDied("the machine is gone", where=f"process {identity.pid}")
    return HostError(
        f"the memory of process {identity.pid} cannot be read or written: {os.strerror(error.errno or 0)}",
        rule="forking and snapshots need ptrace access to the machine's process: same user, kernel.yama.ptrace_scope 0,"
        " or (with 1) the process that made the sandbox",
        remedy="fork from the process that created the sandbox, or set kernel.yama.ptrace_scope to 0",
    )
