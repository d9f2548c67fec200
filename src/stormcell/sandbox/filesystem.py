"""Files of a sandbox: whole ones in memory, any size by stream."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterable
from pathlib import Path
from typing import IO, TypeGuard

from stormcell.machine import files
from stormcell.machine.channel import Channel
from stormcell.machine.files import Entry, Stat
from stormcell.sandbox.execution import pieces
from stormcell.sandbox.link import Link
from stormcell.spec.errors import HostError, NoSpace, OutputLimit

GuestPath = str | bytes
Source = str | Path | IO[bytes] | Iterable[bytes] | AsyncIterable[bytes]
"""A host path, an open binary file, or pieces."""
Target = str | Path | IO[bytes]

MAX_WHOLE = 256 << 20
PIECE = 1 << 20

__all__ = ["AsyncFilesystem", "Entry", "Stat"]


class AsyncFilesystem:
    """Guest paths are absolute; a name may hold any byte but NUL and `/` (give bytes for what is no UTF-8).

    All raise GuestFileError (with the guest's errno), OutcomeUnknown, SandboxNotFound.
    """

    def __init__(self, link: Link) -> None:
        self._link = link

    async def read(self, path: GuestPath, *, max_bytes: int = MAX_WHOLE) -> bytes:
        """The whole of a regular file. Raises OutputLimit when it is larger than `max_bytes`."""
        contents = bytearray()
        async with self._link.use() as channel, _reading(channel, path) as chunks:
            async for chunk in chunks:
                contents += chunk
                if len(contents) > max_bytes:
                    raise OutputLimit(
                        f"the file has more than {max_bytes} bytes",
                        where=str(path),
                        remedy="use read_stream, or raise max_bytes",
                    )
        return bytes(contents)

    async def read_text(self, path: GuestPath, *, max_bytes: int = MAX_WHOLE) -> str:
        """The same as UTF-8; what is none is shown as U+FFFD."""
        return (await self.read(path, max_bytes=max_bytes)).decode(errors="replace")

    async def write(
        self,
        path: GuestPath,
        contents: bytes | str,
        *,
        mode: int | None = None,
        owner: str | None = None,
        parents: bool = True,
    ) -> int:
        """Replace a file in one step; the number of bytes. Text is written as UTF-8."""
        data = contents.encode() if isinstance(contents, str) else contents
        async with self._link.use() as channel:
            return await files.write(channel, path, data, mode=mode, owner=owner, parents=parents)

    async def read_stream(self, path: GuestPath, target: Target) -> int:
        """Into a host file or an open binary file; the number of bytes. A host path is replaced only when it is whole.

        Raises HostError or NoSpace for the host's side.
        """
        async with self._link.use() as channel, _reading(channel, path) as chunks:
            if isinstance(target, str | Path):
                return await _to_path(chunks, Path(target))
            return await _to_file(chunks, target)

    async def chunks(self, path: GuestPath) -> AsyncIterator[bytes]:
        """The file in pieces as they come."""
        async with self._link.use() as channel, _reading(channel, path) as chunks:
            async for chunk in chunks:
                yield chunk

    async def write_stream(
        self,
        path: GuestPath,
        source: Source,
        *,
        mode: int | None = None,
        owner: str | None = None,
        parents: bool = True,
    ) -> int:
        """From a host file, an open binary file or pieces; the number of bytes. Never held in memory as a whole."""
        async with self._link.use() as channel, contextlib.AsyncExitStack() as held:
            if isinstance(source, str | Path):
                contents: AsyncIterable[bytes] = _from_file(held.enter_context(_opened(Path(source))))
            elif _is_file(source):
                contents = _from_file(source)
            else:
                contents = pieces(source)
            return await files.write(channel, path, contents, mode=mode, owner=owner, parents=parents)

    async def list(self, path: GuestPath) -> tuple[Entry, ...]:
        """The entries of a folder, sorted by name."""
        async with self._link.use() as channel:
            return await files.list(channel, path)

    async def stat(self, path: GuestPath) -> Stat:
        """Of the path itself; a link is not followed."""
        async with self._link.use() as channel:
            return await files.stat(channel, path)

    async def exists(self, path: GuestPath) -> bool:
        """False for "no such file" alone; any other reason is an error."""
        async with self._link.use() as channel:
            return await files.exists(channel, path)

    async def remove(self, path: GuestPath, *, recursive: bool = False) -> None:
        """A file, a link or an empty folder; with `recursive` a folder and all in it, links not followed."""
        async with self._link.use() as channel:
            await files.remove(channel, path, recursive=recursive)

    async def make_dir(self, path: GuestPath, *, parents: bool = True, mode: int = 0o755) -> None:
        """A folder; with `parents` it may be there already."""
        async with self._link.use() as channel:
            await files.mkdir(channel, path, parents=parents, mode=mode)


@contextlib.asynccontextmanager
async def _reading(channel: Channel, path: GuestPath) -> AsyncIterator[AsyncIterator[bytes]]:
    """The guest's side ends with the block, however it is left."""
    chunks = files.read(channel, path)
    try:
        yield chunks
    finally:
        if isinstance(chunks, AsyncGenerator):
            await chunks.aclose()


def _is_file(source: object) -> TypeGuard[IO[bytes]]:
    return hasattr(source, "read")


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except OSError as error:
        raise HostError(f"the file cannot be read ({error.strerror})", where=str(path)) from error


async def _from_file(file: IO[bytes]) -> AsyncIterator[bytes]:
    """In a thread: a pipe or a slow disk must not hold up the other work of this loop."""
    while piece := await asyncio.to_thread(file.read, PIECE):
        yield piece


async def _to_file(chunks: AsyncIterator[bytes], file: IO[bytes]) -> int:
    size, held = 0, bytearray()
    async for chunk in chunks:
        size += len(chunk)
        held += chunk
        if len(held) >= PIECE:
            await asyncio.to_thread(_write_all, file, bytes(held))
            held.clear()
    await asyncio.to_thread(_write_all, file, bytes(held))
    return size


def _write_all(file: IO[bytes], data: bytes) -> None:
    """A raw file may take less than it was given."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) or 0 :]


async def _to_path(chunks: AsyncIterator[bytes], path: Path) -> int:
    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with aside.open("xb") as file:
            size = await _to_file(chunks, file)
        aside.replace(path)
        return size
    except OSError as error:
        aside.unlink(missing_ok=True)
        kind = NoSpace if error.errno == 28 else HostError
        raise kind(f"the file cannot be written ({error.strerror})", where=str(path)) from error
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
