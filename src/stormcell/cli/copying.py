"""Copies between the host and sandboxes, by stream."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from stormcell.sandbox.asandbox import AsyncSandbox
from stormcell.sandbox.filesystem import AsyncFilesystem
from stormcell.sandbox.record import ID
from stormcell.spec.errors import GuestFileError, HostError, SpecError


@dataclass(frozen=True)
class Node:
    """A name and what it is: `file`, `directory`, or anything else, which is not copied. `mode` has permission bits."""

    name: str
    type: str
    mode: int


class Side(Protocol):
    """One end of a copy."""

    async def look(self, path: str) -> Node | None:
        """What is there; None for nothing. A link at the top is followed, for its name was given by the user."""

    async def list(self, path: str) -> list[Node]:
        """What is in a folder; links are not followed."""

    def read(self, path: str) -> AsyncIterator[bytes]:
        """A file's bytes."""

    async def write(self, path: str, chunks: AsyncIterator[bytes], mode: int) -> None:
        """Make or replace a file."""

    async def make_dir(self, path: str, mode: int) -> None:
        """Make a folder, unless it is there."""


class Guest:
    """A sandbox's end."""

    def __init__(self, files: AsyncFilesystem) -> None:
        self._files = files

    async def look(self, path: str) -> Node | None:
        """See Side."""
        for _ in range(40):  # as many links as the kernel follows
            if not await self._files.exists(path):
                return None
            about = await self._files.stat(path)
            if about.type != "link":
                return Node(PurePosixPath(path).name, about.type, about.mode & 0o777)
            path = os.path.normpath(str(PurePosixPath(path).parent / (about.target or "")))
        return None

    async def list(self, path: str) -> list[Node]:
        """See Side."""
        return [Node(e.name, e.stat.type, e.stat.mode & 0o777) for e in await self._files.list(path)]

    def read(self, path: str) -> AsyncIterator[bytes]:
        """See Side."""
        return self._files.chunks(path)

    async def write(self, path: str, chunks: AsyncIterator[bytes], mode: int) -> None:
        """See Side."""
        await self._files.write_stream(path, chunks, mode=mode, parents=False)

    async def make_dir(self, path: str, mode: int) -> None:
        """See Side."""
        await self._files.make_dir(path, mode=mode)


class Host:
    """This machine's end. Names that come from a guest hold no `/` and are no `..`; links are never written through."""

    async def look(self, path: str) -> Node | None:
        """See Side."""
        try:
            return _node(Path(path).name, Path(path).stat())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise HostError(f"it cannot be looked at ({error.strerror})", where=path) from error

    async def list(self, path: str) -> list[Node]:
        """See Side."""
        try:
            with os.scandir(path) as entries:
                return sorted((_node(e.name, e.stat(follow_symlinks=False)) for e in entries), key=lambda n: n.name)
        except OSError as error:
            raise HostError(f"the folder cannot be read ({error.strerror})", where=path) from error

    async def read(self, path: str) -> AsyncIterator[bytes]:
        """See Side."""
        try:
            with Path(path).open("rb") as file:
                while chunk := file.read(1 << 20):
                    yield chunk
        except OSError as error:
            raise HostError(f"the file cannot be read ({error.strerror})", where=path) from error

    async def write(self, path: str, chunks: AsyncIterator[bytes], mode: int) -> None:
        """See Side. Written beside it and renamed, so that an interrupted copy leaves the old file."""
        target = Path(path)
        aside = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
            with os.fdopen(fd, "wb") as file:
                os.fchmod(fd, mode)  # whatever the umask is
                async for chunk in chunks:
                    file.write(chunk)
            aside.replace(target)
        except OSError as error:
            raise HostError(f"the file cannot be written ({error.strerror})", where=path) from error
        finally:
            aside.unlink(missing_ok=True)

    async def make_dir(self, path: str, mode: int) -> None:
        """See Side."""
        try:
            Path(path).mkdir(mode=mode | stat.S_IRWXU, exist_ok=True)
        except OSError as error:
            raise HostError(f"the folder cannot be made ({error.strerror})", where=path) from error


def _node(name: str, about: os.stat_result) -> Node:
    kind = "file" if stat.S_ISREG(about.st_mode) else "directory" if stat.S_ISDIR(about.st_mode) else "other"
    return Node(name, kind, about.st_mode & 0o777)


def parse(text: str) -> tuple[str | None, str]:
    """`sc-...:/path` is in a sandbox; all else is here, `./sc-...:x` too. Raises SpecError."""
    name, colon, path = text.partition(":")
    if not colon or not ID.match(name):
        return None, text
    if not path.startswith("/"):
        raise SpecError(f"'{path}' is no absolute path", where=text, remedy=f"write {name}:/path")
    return name, path


async def copy(source: str, target: str, recursive: bool) -> list[str]:
    """The paths that were left out. Raises StormcellError."""
    async with contextlib.AsyncExitStack() as held:
        there: list[tuple[Side, str]] = []
        for name, path in (parse(source), parse(target)):
            if name is None:
                there.append((Host(), path))
            else:
                found = await AsyncSandbox.attach(name)
                held.push_async_callback(found.close)
                there.append((Guest(found.filesystem), path))
        (reader, from_path), (writer, to_path) = there
        if isinstance(reader, Host) and isinstance(writer, Host):
            raise SpecError("neither side is a sandbox", rule="one of them is written ID:/path")
        node = await reader.look(from_path)
        if node is None:
            raise SpecError("there is no such file or folder", where=source)
        if node.type == "directory" and not recursive:
            raise SpecError("it is a folder", where=source, remedy="use -r")
        at = await writer.look(to_path)
        if (at and at.type == "directory") or to_path.endswith("/"):
            to_path = str(PurePosixPath(to_path) / PurePosixPath(os.path.normpath(from_path)).name)
        skipped: list[str] = []
        await _copy(reader, from_path, writer, to_path, node, skipped)
        return skipped


async def _copy(reader: Side, source: str, writer: Side, target: str, node: Node, skipped: list[str]) -> None:
    try:
        if node.type == "file":
            await writer.write(target, reader.read(source), node.mode)
        elif node.type == "directory":
            await writer.make_dir(target, node.mode)
            for child in await reader.list(source):
                below = str(PurePosixPath(source) / child.name), str(PurePosixPath(target) / child.name)
                await _copy(reader, below[0], writer, below[1], child, skipped)
        else:
            skipped.append(source)
    except GuestFileError as error:
        error.add_note(f"copying {source} to {target}")
        raise
