"""Files in the guest, streamed both ways. Paths are absolute; a name may hold any byte but NUL and /."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from stormcell.guest.wire import MAX_PAYLOAD, Kind, WireError
from stormcell.machine.channel import Channel
from stormcell.machine.exchange import Exchange, error_text, printable
from stormcell.spec.errors import GuestFileError, OutcomeUnknown, SandboxError

IDLE = 60.0
"""Seconds without any progress of the guest after which an operation is given up."""
MOST_ENTRIES = 100_000
GuestPath = str | bytes
Contents = bytes | bytearray | memoryview | Iterable[bytes] | AsyncIterable[bytes]
_TYPES = frozenset({"file", "directory", "link", "fifo", "socket", "character device", "block device", "unknown"})


@dataclass(frozen=True)
class Stat:
    """What lstat says. `type` is file, directory, link, fifo, socket, character device, block device or unknown.

    `mode` has the permission bits; `target` is a link's. Bytes that are no UTF-8 are lone surrogates (os.fsencode).
    """

    type: str
    size: int
    mode: int
    uid: int
    gid: int
    mtime_ns: int
    target: str | None


@dataclass(frozen=True)
class Entry:
    """A name in a folder and what it is."""

    name: str
    stat: Stat


async def read(channel: Channel, path: GuestPath) -> AsyncIterator[bytes]:
    """The contents of a regular file, in pieces of at most 64 KiB. Raises GuestFileError, OutcomeUnknown."""
    exchange = await _open(channel, "file.read", path)
    size = 0
    try:
        while chunk := await exchange.read(Kind.OUTPUT):
            size += len(chunk)
            yield chunk
        answer = await _result(channel, exchange, path)
    finally:
        exchange.cancel()
    if channel.checked(lambda: _whole(answer, "size")) != size:
        raise channel.violated("a file's contents are not as long as it says")


async def write(
    channel: Channel,
    path: GuestPath,
    contents: Contents,
    *,
    mode: int | None = None,
    owner: str | None = None,
    parents: bool = False,
    sync: bool = False,
) -> int:
    """Replace a file in one step: the old contents or the new are there, never a part. Returns the bytes written.

    `mode` and `owner` (name, uid, name:group, uid:gid) default to those of the file that was there, else 0644 and
    root. A link is written through. `sync` waits for the disk. Raises GuestFileError, OutcomeUnknown; an exception of
    `contents` stops the guest's side and leaves the old file.
    """
    options = {"mode": mode, "owner": owner, "parents": parents, "sync": sync}
    exchange = await _open(channel, "file.write", path, **options)
    size = 0
    try:
        async for piece in _pieces(contents):
            size += len(piece)
            if not await exchange.write(piece):
                break
        exchange.end_input()
        answer = await _result(channel, exchange, path)
    except BaseException:
        exchange.cancel()
        raise
    if channel.checked(lambda: _whole(answer, "size")) != size:
        raise channel.violated("the guest wrote another number of bytes than it was sent")
    return size


async def stat(channel: Channel, path: GuestPath) -> Stat:
    """Of the path itself; a link is not followed. Raises GuestFileError."""
    answer = await _ask(channel, "file.stat", path)
    return channel.checked(lambda: _stat(answer))


async def list(channel: Channel, path: GuestPath, *, limit: int = MOST_ENTRIES) -> tuple[Entry, ...]:
    """The entries of a folder, sorted by name. Raises GuestFileError; SandboxError for more than `limit` entries."""
    exchange = await _open(channel, "file.list", path)
    entries: dict[str, Entry] = {}
    held = b""
    try:
        while chunk := await exchange.read(Kind.OUTPUT):
            *lines, held = (held + chunk).split(b"\n")
            for line in lines:
                entry = channel.checked(lambda line=line: _entry(line))  # type: ignore[misc]
                entries[entry.name] = entry
            if len(entries) > limit:
                raise SandboxError(
                    f"the folder has more than {limit} entries",
                    where=printable(_text(path)),
                    remedy="list it with a command in the sandbox, or raise the limit",
                )
            if len(held) > MAX_PAYLOAD:
                raise channel.violated("an entry of a folder without end")
        await _result(channel, exchange, path)
    finally:
        exchange.cancel()
    return tuple(sorted(entries.values(), key=lambda entry: entry.name))


async def exists(channel: Channel, path: GuestPath) -> bool:
    """False for "no such file" alone; any other reason raises GuestFileError. A dangling link exists."""
    answer = await _ask(channel, "file.exists", path)
    return channel.checked(lambda: _flag(answer, "exists"))


async def remove(channel: Channel, path: GuestPath, *, recursive: bool = False) -> None:
    """A file, a link or an empty folder; with `recursive` a folder and all in it, links not followed."""
    await _ask(channel, "file.remove", path, recursive=recursive)


async def mkdir(channel: Channel, path: GuestPath, *, parents: bool = False, mode: int = 0o755) -> None:
    """A folder; with `parents` it may be there already. Raises GuestFileError."""
    await _ask(channel, "file.mkdir", path, parents=parents, mode=mode)


async def _open(channel: Channel, op: str, path: GuestPath, **options: Any) -> Exchange:
    text = _text(path)
    if not text.startswith("/") or "\0" in text:
        raise SandboxError("a path in the guest begins with / and holds no NUL", where=printable(text))
    return await channel.open({"op": op, "path": text, **options}, idle=IDLE)


async def _ask(channel: Channel, op: str, path: GuestPath, **options: Any) -> Mapping[str, Any]:
    return await _result(channel, await _open(channel, op, path, **options), path)


async def _result(channel: Channel, exchange: Exchange, path: GuestPath) -> Mapping[str, Any]:
    answer = await exchange.final()
    if "error" in answer:
        channel.checked(lambda: _refuse(answer, path))
    return answer


def _refuse(answer: Mapping[str, Any], path: GuestPath) -> NoReturn:
    error = answer["error"]
    if not isinstance(error, dict):
        raise WireError("an error without a reason")
    where, number = printable(_text(path)), error.get("errno")
    if error.get("kind") == "lost":
        raise OutcomeUnknown(f"the file operation did not end: {error_text(answer)}", where=where)
    if error.get("kind") != "file" or not isinstance(number, int):
        raise SandboxError(f"the guest refused the request: {error_text(answer)}", where=where)
    about = printable(str(error.get("path", "")))
    reason = error_text(answer) if about in ("", where) else f"{error_text(answer)}: {about}"
    raise GuestFileError(reason, errno=number, where=where)


async def _pieces(contents: Contents) -> AsyncIterator[bytes | bytearray | memoryview]:
    if isinstance(contents, bytes | bytearray | memoryview):
        yield memoryview(contents).cast("B")
    elif isinstance(contents, AsyncIterable):
        async for piece in contents:
            yield piece
    else:
        for piece in contents:
            yield piece


def _text(path: GuestPath) -> str:
    return path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else path


def _entry(line: bytes) -> Entry:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        raise WireError("an entry of a folder is no JSON") from None
    name = fields.get("name") if isinstance(fields, dict) else None
    if not isinstance(name, str) or not name or "/" in name or "\0" in name or name in (".", ".."):
        raise WireError("an entry of a folder has no name that a file can have")
    return Entry(name, _stat(fields))


def _stat(fields: Mapping[str, Any]) -> Stat:
    kind, target = fields.get("type"), fields.get("target")
    if kind not in _TYPES or not isinstance(target, str | None):
        raise WireError("a file of no known type")
    size, mode, uid, gid = (_whole(fields, name) for name in ("size", "mode", "uid", "gid"))
    mtime = fields.get("mtime_ns")
    if not isinstance(mtime, int):
        raise WireError("mtime_ns is no whole number")
    return Stat(kind, size, mode, uid, gid, mtime, target)


def _whole(fields: Mapping[str, Any], name: str) -> int:
    value = fields.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise WireError(f"{name} is no size or number")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if not isinstance(value, bool):
        raise WireError(f"{name} is neither true nor false")
    return value
