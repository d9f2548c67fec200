"""A memory file for the children of one fork, where copying the parent's own pages into each would cost more.

A child of an ordinary fork gets a copy of every page in which its parent differs from their memory file. When many
children would get many such pages, the whole memory is written into one file instead, and all children share it.
"""

from __future__ import annotations

import os
from pathlib import Path

from stormcell.machine.disk import writing
from stormcell.machine.model import ProcessIdentity
from stormcell.machine.pages import Pages, private_runs, region
from stormcell.sandbox import admission, layers

_CHUNK = 4 << 20


def pays(identity: ProcessIdentity, memory: Path, size: int, count: int, folder: Path) -> bool:
    """Whether the copies would be more than the memory itself, of `size` bytes, and the disk has room for it."""
    own = sum(length for _, length in private_runs(identity, *region(identity, memory)))
    return own * count > size and admission.disk_free(folder) > size + admission.DISK_OF_ONE * count


def reserve(layer: Path, size: int) -> Path:
    """The empty file, for processes that map it before it is filled. Raises NoSpace, HostError."""
    path = layer / layers.MEMORY
    with writing("the children's memory cannot be made", path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(fd, size)
        finally:
            os.close(fd)
    return path


def fill(path: Path, base: Path, pages: Pages) -> None:
    """Write the memory as it was: `base`, and `pages` over it. Raises NoSpace, HostError."""
    with writing("the children's memory cannot be written", path), path.open("r+b", buffering=0) as target:
        with base.open("rb", buffering=0) as source:
            _copy_data(source.fileno(), target.fileno())
        for place, content in pages.contents():
            at = 0
            while at < len(content):
                at += os.pwrite(target.fileno(), content[at : at + _CHUNK], place + at)


def _copy_data(source: int, target: int) -> None:
    """Holes stay holes."""
    at, size = 0, os.fstat(source).st_size
    while at < size:
        try:
            at = os.lseek(source, at, os.SEEK_DATA)
        except OSError:
            return  # ENXIO: only a hole is left
        end = os.lseek(source, at, os.SEEK_HOLE)
        while at < end:
            os.lseek(target, at, os.SEEK_SET)
            copied = os.sendfile(target, source, at, min(_CHUNK, end - at))
            if not copied:
                return
            at += copied
