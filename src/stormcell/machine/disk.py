"""qcow2 overlays. On the way to a running sandbox no program is started: the template's empty overlay is copied."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from stormcell.machine.host import tool
from stormcell.spec.errors import HostError, NoSpace

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
    """A new, empty qcow2 file of `size` bytes over `backing`, which need not be there yet. Raises HostError."""
    program = tool("qemu-img", "qemu-utils")
    done = subprocess.run(
        [program, "create", "-q", "-u", "-f", "qcow2", "-F", backing_format, "-b", backing, path, str(size)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    if done.returncode:
        kind = NoSpace if "No space left" in done.stderr or "quota exceeded" in done.stderr else HostError
        raise kind("the disk overlay cannot be made", where=str(path), detail=done.stderr)
    path.chmod(0o600)


def copy_overlay(seed: Path, path: Path) -> None:
    """Copy a template's empty overlay (about 200 KB) to a new private file. Raises NoSpace, HostError."""
    with writing("the sandbox's disk cannot be made", path), seed.open("rb") as source:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as target:
            shutil.copyfileobj(source, target, 1 << 20)
