"""Memory and disk promised to runs under way, of all campaigns of this home together.

One small file, changed under flock. An entry whose process died counts no more. A torn file counts as empty: every
campaign writes its own entries again at its next look, a moment later.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

from stormcell.engine.campaigns.means import Need
from stormcell.sandbox.hostclock import ProcessRef
from stormcell.spec.errors import NoPermission
from stormcell.spec.home import Home, private_folder

MAX_BYTES = 4 << 20


class Promises:
    """Those of this process are in memory; the file is how others see them."""

    def __init__(self, home: Home) -> None:
        self._path = private_folder(home.state) / "promises.json"
        self._owner = ProcessRef.here()
        self._mine: dict[str, tuple[Need, Need]] = {}

    @contextmanager
    def settled(self) -> Iterator[Need]:
        """What is still owed to all, while nobody else may promise. `promise` within it."""
        try:
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NoPermission(f"cannot be written ({error.strerror})", where=str(self._path)) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            others = [entry for entry in _read(fd) if entry["owner"] != asdict(self._owner) and _alive(entry)]
            yield _sum([*(_need(entry) for entry in others), *(owed(*pair) for pair in self._mine.values())])
            self._write(fd, others)
        finally:
            os.close(fd)

    def _write(self, fd: int, others: list[dict[str, Any]]) -> None:
        mine = [{"owner": asdict(self._owner), **asdict(owed(*pair))} for pair in self._mine.values()]
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, json.dumps([*others, *mine]).encode(), 0)
        except OSError:
            pass  # a full disk: others see less than was promised, and still look at what is free

    def promise(self, run: str, need: Need) -> None:
        """From now on."""
        self._mine[run] = (need, Need(0, 0))

    def used(self, run: str, used: Need) -> None:
        """So much of it is used by now, and no longer owed."""
        if run in self._mine:
            self._mine[run] = (self._mine[run][0], used)

    def forget(self, run: str) -> None:
        """The run is over."""
        self._mine.pop(run, None)

    def tell(self) -> None:
        """Write down what changed."""
        with self.settled():
            pass


def owed(need: Need, used: Need) -> Need:
    """What is not used yet."""
    return Need(max(0, need.memory - used.memory), max(0, need.disk - used.disk))


def _sum(needs: list[Need]) -> Need:
    return Need(sum(need.memory for need in needs), sum(need.disk for need in needs))


def _read(fd: int) -> list[dict[str, Any]]:
    try:
        found = json.loads(os.pread(fd, MAX_BYTES, 0))
        return [entry for entry in found if isinstance(entry["owner"], dict) and _need(entry)]
    except (ValueError, TypeError, KeyError):
        return []


def _need(entry: dict[str, Any]) -> Need:
    return Need(int(entry["memory"]), int(entry["disk"]))


def _alive(entry: dict[str, Any]) -> bool:
    try:
        return ProcessRef(**entry["owner"]).alive()
    except TypeError:
        return False
