"""Layers: what forks and snapshots share on the host's disk, and when it goes.

A layer is a folder with a frozen disk overlay, and with a memory file where that pays. Machines map and open its files
read-only. It stays as long as the record of a sandbox or the manifest of a snapshot names it. Standard library only,
for the reaper's sake.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

DISK, SEED, MEMORY = "disk.qcow2", "seed.qcow2", "memory"
ID = re.compile(r"ly-[0-9a-f]{12}\Z")
DEEP = 8
"""Under a disk, from which on they are joined into one before the next fork: each one makes reads slower."""
TEMPLATE, EMPTY = "template", "empty"
"""What a record says of its memory when it is no layer's: the template's file, or an empty one of its own."""


def folder_of(state: Path) -> Path:
    """One folder a layer."""
    return state / "layers"


@contextlib.asynccontextmanager
async def held(state: Path) -> AsyncIterator[None]:
    """Nothing is collected meanwhile: around the making of a layer, until a record that names it is written."""
    fd = os.open(state / "layers.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                await asyncio.sleep(0.01)
        yield
    finally:
        os.close(fd)


def new_layer(state: Path) -> Path:
    """An empty one; call it while `held`."""
    folder = folder_of(state) / f"ly-{secrets.token_hex(6)}"
    folder.mkdir(mode=0o700, parents=True)
    return folder


def collect(state: Path, *, dry_run: bool = False) -> list[Path]:
    """Remove the layers that nobody names; those that were (or would be) removed.

    Nothing goes while a layer is being made, or while a record cannot be read: what it names is not known.
    """
    if not folder_of(state).is_dir():
        return []
    fd = os.open(state / "layers.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return []
        used = named(state)
        found = sorted(path for path in folder_of(state).iterdir() if ID.match(path.name))
        unused = [path for path in found if used is not None and path.name not in used]
        if not dry_run:
            for path in unused:
                shutil.rmtree(path, ignore_errors=True)
        return unused if dry_run else [path for path in unused if not path.exists()]
    finally:
        os.close(fd)


def named(state: Path) -> set[str] | None:
    """The ids that records and manifests name; None when one of them cannot be read."""
    used: set[str] = set()
    for pattern in ("sandboxes/*/record.json", "sandboxes/.new-*/record.json", "snapshots/*/manifest.json"):
        for path in state.glob(pattern):
            try:
                data = json.loads(path.read_bytes())
                used.update(map(str, data.get("layers", ())), [str(data.get("memory", ""))])
            except FileNotFoundError:
                continue
            except (OSError, ValueError, AttributeError, TypeError):
                return None
    return used


def memory_of(state: Path, layer: str) -> Path:
    """A layer's memory file."""
    return folder_of(state) / layer / MEMORY
