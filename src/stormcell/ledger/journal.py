"""A ledger in one file of JSON lines that is only ever appended to.

Every line is on the disk before the call that wrote it returns, and carries a checksum over itself and the line
before. So a last line that was torn by a crash is known and left out (what it would have said is as if it had not
been said), and damage anywhere else is noticed and refused. One process writes at a time: it holds a flock, which the
kernel lets go of when the process dies, however it dies.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stormcell.ledger.model import Entry, Wrong, after
from stormcell.spec.errors import HostError, NoPermission, NoSpace, SpecError

MAX_BYTES = 256 << 20


class Journal:
    """Open with `open` (to write) or `read` (to look). A context manager closes it."""

    def __init__(self, path: Path, fd: int | None) -> None:
        self.path = path
        self._fd = fd
        self._entries: dict[str, Entry] = {}
        self._end = 0
        self._sum = ""

    @classmethod
    def open(cls, path: Path) -> Self:
        """The ledger at `path`, made when missing. Raises HostError when another process has it, SpecError, NoSpace.

        A torn last line is cut off.
        """
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise NoPermission(f"the ledger cannot be opened ({error.strerror})", where=str(path)) from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            journal = cls(path, fd)
            journal._load(os.pread(fd, MAX_BYTES, 0))
            os.ftruncate(fd, journal._end)
            _sync_name(path)
        except BlockingIOError as error:
            os.close(fd)
            raise HostError(
                "another process is at work on this",
                where=str(path.parent),
                remedy="wait for it, or stop it (Ctrl-C there)",
            ) from error
        except BaseException:
            os.close(fd)
            raise
        return journal

    @classmethod
    def read(cls, path: Path) -> Self:
        """What it says now; cannot write. Raises SpecError."""
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise SpecError(f"the ledger cannot be read ({error.strerror})", where=str(path)) from error
        journal = cls(path, None)
        journal._load(raw)
        return journal

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Let others write."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def entry(self, execution: str) -> Entry:
        """Its state now."""
        return self._entries.get(execution, Entry())

    @property
    def entries(self) -> Mapping[str, Entry]:
        """All that were ever claimed."""
        return self._entries

    def claim(self, execution: str) -> int:
        """Take it. Returns the number of the attempt, from 1."""
        self._append(execution, {"do": "claim"})
        return self.entry(execution).attempts

    def finish(self, execution: str, facts: Mapping[str, Any]) -> None:
        """It came to an end, which `facts` say."""
        self._append(execution, {"do": "finish", "facts": dict(facts)})

    def release(self, execution: str, why: str) -> None:
        """Nothing came of it; it may be claimed again."""
        self._append(execution, {"do": "release", "why": why})

    def reopen(self, execution: str, why: str) -> None:
        """It was finished, and somebody wants it once more."""
        self._append(execution, {"do": "reopen", "why": why})

    def _append(self, execution: str, said: Mapping[str, Any]) -> None:
        assert self._fd is not None, "a ledger that was opened to be read, or is closed"
        line = {"at": round(time.time(), 3), "id": execution, **said}
        entry = after(self.entry(execution), line)
        text, digest = _sealed(line, self._sum)
        try:
            _write(self._fd, text, self._end)
            os.fdatasync(self._fd)
        except OSError as error:
            os.ftruncate(self._fd, self._end)  # a part of it may be there; a later line must not follow it
            raise NoSpace(
                f"the ledger cannot be written ({error.strerror})",
                where=str(self.path),
                remedy="make room, then resume; what had finished stays so",
            ) from error
        self._entries[execution] = entry
        self._end += len(text)
        self._sum = digest

    def _load(self, raw: bytes) -> None:
        lines = raw.split(b"\n")
        torn = lines.pop()  # after the last line feed: nothing, or what a crash left
        for number, line in enumerate(lines, 1):
            try:
                self._take(line)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                if number == len(lines) and not torn and not isinstance(error, Wrong):
                    break  # the crash tore it in the middle of a block, and its line feed got through
                raise SpecError(
                    f"the ledger is damaged in line {number} ({error})",
                    where=str(self.path),
                    rule="lines are appended and never changed; each carries a checksum",
                    remedy="begin the campaign anew; the folders of its finished runs are still good",
                ) from error
            self._end += len(line) + 1

    def _take(self, line: bytes) -> None:
        said = json.loads(line)
        text, digest = _sealed({key: value for key, value in said.items() if key != "sum"}, self._sum)
        if text != line + b"\n":
            raise ValueError("its checksum is wrong")
        name = str(said["id"])
        self._entries[name] = after(self.entry(name), said)
        self._sum = digest


def _sealed(line: Mapping[str, Any], before: str) -> tuple[bytes, str]:
    body = json.dumps(line)
    digest = hashlib.sha256((before + body).encode()).hexdigest()[:16]
    return json.dumps({**line, "sum": digest}).encode() + b"\n", digest


def _write(fd: int, text: bytes, offset: int) -> None:
    while text:
        done = os.pwrite(fd, text, offset)
        text, offset = text[done:], offset + done


def _sync_name(path: Path) -> None:
    fd = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
