"""qcow2 overlays. On the way to a running sandbox no program is started: the template's empty overlay is copied."""

from __future__ import annotations

import errno
import os
import shutil
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from stormcell.spec.errors import HostError, NoSpace

_CLUSTER = 1 << 16
NO_ROOM = {28: "no space left on the device", 122: "disk quota exceeded"}


@contextmanager
def writing(what: str, where: Path) -> Iterator[None]:
    """Around writes of ours. An OSError becomes NoSpace or HostError with the sentence `what`."""
    try:
        yield
    except OSError as error:
        kind = NoSpace if error.errno in NO_ROOM else HostError
        raise kind(what, where=str(where), detail=str(error)) from error


def make_overlay(path: Path, backing: Path, backing_format: Literal["raw", "qcow2"], *, size: int) -> None:
    """A new, empty qcow2 file of `size` bytes over `backing`, which need not be there yet. Raises NoSpace, HostError.

    Written here, since starting qemu-img takes 15 ms, in the middle of every fork.
    """
    with writing("the disk overlay cannot be made", path):
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(empty_qcow2(os.fsencode(backing), backing_format.encode(), size))


def empty_qcow2(backing: bytes, backing_format: bytes, size: int) -> bytes:
    """The bytes of an image without data: header, refcount table, one refcount block, L1 table (version 3 of
    docs/interop/qcow2.txt of QEMU; all numbers big-endian)."""
    if len(backing) > 1023:
        raise OSError(errno.ENAMETOOLONG, "a qcow2 file names its backing file in at most 1023 bytes")
    entries = -(-size // (_CLUSTER * _CLUSTER // 8))
    clusters = 3 + -(-entries * 8 // _CLUSTER)
    extension = struct.pack(">II", 0xE2792ACA, len(backing_format)) + backing_format.ljust(
        -(-len(backing_format) // 8) * 8, b"\0"
    )
    length = 104
    header = b"QFI\xfb" + struct.pack(
        ">IQIIQIIQQIIQQQQII",
        3, length + len(extension) + 8, len(backing), _CLUSTER.bit_length() - 1, size, 0,
        entries, 3 * _CLUSTER, _CLUSTER, 1, 0, 0, 0, 0, 0, 4, length,
    )  # fmt: skip
    image = bytearray(clusters * _CLUSTER)
    head = header + extension + bytes(8) + backing
    image[: len(head)] = head
    struct.pack_into(">Q", image, _CLUSTER, 2 * _CLUSTER)
    struct.pack_into(f">{clusters}H", image, 2 * _CLUSTER, *[1] * clusters)
    return bytes(image)


def copy_overlay(seed: Path, path: Path) -> None:
    """Copy a template's empty overlay (about 200 KB) to a new private file. Raises NoSpace, HostError."""
    with writing("the sandbox's disk cannot be made", path), seed.open("rb") as source:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
