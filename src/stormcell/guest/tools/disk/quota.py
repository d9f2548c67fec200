"""Quotas of a file system by quotactl(2): of a user, or of a folder that becomes a project while the fault lasts."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from stormcell.guest.tools import claims, common, mounts, refusals
from stormcell.guest.tools.block import dm
from stormcell.guest.tools.disk import space

USER, PROJECT = 0, 2
_GET, _SET = 0x800007, 0x800008
_LIMITS = 1 | 4
_BLOCK = struct.Struct("=8QI4x")
_FIELDS = ("block_limit", "block_soft", "used", "file_limit", "file_soft", "files", "block_time", "file_time")
_UNIT = 1024
"""Limits of blocks are counted in these (QIF_DQBLKSIZE); usage in bytes."""
_GET_ATTRIBUTES, _SET_ATTRIBUTES, _INHERIT = 0x801C581F, 0x401C5820, 0x200
_ATTRIBUTES = struct.Struct("=5I8s")
_libc = ctypes.CDLL(None, use_errno=True)


def act(mark: str, path: str, user: str, of: str, leave: str, files: str) -> dict[str, Any]:
    """Leave `user` (`of` user) or everybody in the folder (`of` folder) so many bytes and so many new files; `-`: any.

    Refused where no quotas are kept, and where a tighter limit is set already.
    """
    kind, number = _whose(mark, space.folder(path), user, of)
    node = _node(path)
    note: dict[str, Any] = {"path": path, "node": node, "kind": kind, "number": number, "tree": kind == PROJECT}
    claims.take(mark, [f"quota {node} {kind} {number}"], f"the quota of {user} on the disk of {path}", "set")
    note["previous"] = get(node, kind, number)
    if kind == PROJECT and note["previous"]["files"]:
        raise ValueError(f"project {number} is in use on {node}")
    common.put_mark(mark, note)
    refusals.start(mark, (errno.EDQUOT,))
    if kind == PROJECT:
        _adopt(path, 0, number)
    now = get(node, kind, number)
    asked = {
        "block_limit": 0 if leave == "-" else max(1, -(-(now["used"] + int(leave)) // _UNIT)),
        "file_limit": 0 if files == "-" else max(1, now["files"] + int(files)),
    }
    for name, value in asked.items():
        if value and 0 < note["previous"][name] < value:
            raise ValueError(f"a tighter quota ({name} {note['previous'][name]}) is in force already")
        note[name] = value or note["previous"][name]
    common.put_mark(mark, note)
    put(node, kind, number, note["block_limit"], note["file_limit"])
    return {"limit": get(node, kind, number)}


def restore(mark: str) -> None:
    """The limits from before; the folder's files belong to no project of ours any more. May be said twice."""
    note = common.get_mark(mark)
    if note is not None:
        before = note["previous"]
        put(note["node"], note["kind"], note["number"], before["block_limit"], before["file_limit"])
        if note["tree"] and os.path.isdir(note["path"]):
            _adopt(note["path"], note["number"], 0)
    refusals.stop(mark)
    claims.drop(mark)
    common.drop_mark(mark)


def show(mark: str, path: str, user: str, of: str, leave: str, files: str) -> dict[str, Any]:
    """The quota as the kernel has it, what became of some writes or new files as `user`, and who else was refused."""
    kind, number = _whose(mark, space.folder(path), user, of)
    refused = refusals.counted(mark)
    probe = space.try_write(path, user, int(leave)) if leave != "-" else space.try_create_as(path, user, int(files))
    return {
        "on": _node(path),
        "whose": f"user {number}" if kind == USER else f"project {number}",
        "limit": get(_node(path), kind, number),
        "probe": probe,
        "refused": refused,
        "act": common.get_mark(mark),
    }


def get(node: str, kind: int, number: int) -> dict[str, int]:
    """Limits and usage. Raises ValueError where none are kept."""
    buffer = ctypes.create_string_buffer(_BLOCK.size)
    if _libc.quotactl(_GET << 8 | kind, node.encode(), number, buffer) != 0:
        code = ctypes.get_errno()
        if code in (errno.ESRCH, errno.ENOTSUP, errno.ENOSYS):
            raise ValueError(f"{node} keeps no quotas; the data volumes of a template do")
        raise OSError(code, os.strerror(code), node)
    return dict(zip(_FIELDS, _BLOCK.unpack(buffer.raw), strict=False))


def put(node: str, kind: int, number: int, block_limit: int, file_limit: int) -> None:
    """Hard limits; 0 is none. Raises OSError."""
    buffer = ctypes.create_string_buffer(_BLOCK.pack(block_limit, 0, 0, file_limit, 0, 0, 0, 0, _LIMITS))
    if _libc.quotactl(_SET << 8 | kind, node.encode(), number, buffer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), node)


def _whose(mark: str, path: str, user: str, of: str) -> tuple[int, int]:
    if of == "user":
        return USER, space.uid(user)
    return PROJECT, 0x5C0000 | zlib.crc32(mark.encode()) & 0xFFFF


def _node(path: str) -> str:
    held = mounts.of(path)
    try:
        return dm.path_of(f"{os.major(held.dev)}:{os.minor(held.dev)}")
    except (FileNotFoundError, LookupError):
        raise ValueError(f"{path} is on {held.source} ({held.kind}), which keeps no quotas") from None


def _adopt(path: str, old: int, new: int) -> None:
    """Everything in the folder that belongs to project `old` belongs to `new`; what is made in it inherits that."""
    for name in _tree(path):
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOATIME | os.O_CLOEXEC)
        except OSError:  # a socket, a link, or gone
            continue
        try:
            buffer = bytearray(_ATTRIBUTES.size)
            fcntl.ioctl(fd, _GET_ATTRIBUTES, buffer)
            flags, size, count, project, cow, rest = _ATTRIBUTES.unpack(buffer)
            if project == old:
                flags = flags | _INHERIT if new and os.path.isdir(name) else flags & ~_INHERIT
                fcntl.ioctl(fd, _SET_ATTRIBUTES, _ATTRIBUTES.pack(flags, size, count, new, cow, rest))
        finally:
            os.close(fd)


def _tree(path: str) -> Iterator[str]:
    top = os.path.realpath(path)
    dev = os.stat(top).st_dev
    yield top
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if os.lstat(os.path.join(folder, name)).st_dev == dev]
        for name in (*folders, *files):
            place = os.path.join(folder, name)
            if not os.path.islink(place):
                yield place


def main(argv: list[str]) -> int:
    """`quota act|restore|show`."""
    return common.serve("quota", {"act": act, "restore": restore, "show": show}, argv)
