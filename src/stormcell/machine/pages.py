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
_POPULATE_WRITE = 23
"""MADV_POPULATE_WRITE of Linux 5.14, which Python's mmap does not name yet (include/uapi/asm-generic/mman-common.h)."""
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
    """Pages of one machine, one after the other from the start of `memory`, which is ours; None for no pages."""

    runs: Sequence[Run]
    memory: mmap.mmap | None

    @classmethod
    def of_file(cls, runs: Sequence[Run], path: Path) -> Pages:
        """As they were saved to a file. Raises OSError."""
        if not runs:
            return cls(runs, None)
        with path.open("rb") as file:
            # MAP_PRIVATE, since ctypes wants a writable buffer to take an address from; nothing is written
            return cls(runs, mmap.mmap(file.fileno(), sum(length for _, length in runs), flags=mmap.MAP_PRIVATE))

    @property
    def bytes(self) -> int:
        """All together."""
        return sum(length for _, length in self.runs)

    def contents(self) -> Iterator[tuple[int, memoryview]]:
        """Each run's place in the guest's memory, and what is in it."""
        if self.memory is not None:
            at = 0
            with memoryview(self.memory) as whole:
                for place, length in self.runs:
                    with whole[at : at + length] as content:
                        yield place, content
                    at += length

    def close(self) -> None:
        """Give the memory back."""
        if self.memory is not None:
            self.memory.close()


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
    """Memory to copy pages into, taken before the guest is stopped: what is left to do then is to copy.

    In huge pages where the host gives them: taking 40 MB page by page costs about as much as filling it four times.
    """

    def __init__(self, size: int) -> None:
        self._size = max(size, PAGE)
        self._map = mmap.mmap(-1, self._size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)

    def take(self) -> None:
        """Have the host give it now, page by page or in larger ones. Other threads run meanwhile."""
        anchor = ctypes.c_char.from_buffer(self._map)
        for advice in (mmap.MADV_HUGEPAGE, _POPULATE_WRITE):
            # a kernel that does not know the advice gives the memory when it is written to
            _libc.madvise(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(self._size), advice)
        del anchor

    def copy(self, identity: ProcessIdentity, low: int, runs: Sequence[Run]) -> Pages:
        """Copy `runs` of a process that stands still; the room is used up. Raises HostError, MachineDied."""
        total = sum(length for _, length in runs)
        if total > self._size:
            self._map.resize(total)
        if total:
            _transfer(_libc.process_vm_readv, identity, low, runs, self._map)
        return Pages(tuple(runs), self._map)

    def close(self) -> None:
        """Give it back unless it was used. Harmless when repeated."""
        self._map.close()


def put_in(identity: ProcessIdentity, low: int, pages: Pages) -> None:
    """Copy pages into a process that does not run its guest yet. Raises HostError, MachineDied."""
    if pages.memory is not None and pages.runs:
        _transfer(_libc.process_vm_writev, identity, low, pages.runs, pages.memory)


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
