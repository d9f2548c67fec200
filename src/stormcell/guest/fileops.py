"""File operations as a helper child does them: contents on its pipes, one JSON result at the end.

The agent forks a child for each, because any touch of a disk may hang under a disk fault.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import json
import os
import pwd
import resource
import secrets
import shutil
import stat
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

_CHUNK = 256 * 1024
_PIPE = 1024 * 1024
_TYPES = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "directory",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "fifo",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "character device",
    stat.S_IFBLK: "block device",
}


def perform(request: Mapping[str, Any]) -> int:
    """Do `request`; contents are descriptors 0 and 1, the result goes to 2. Returns the exit code, always 0."""
    path = str(request.get("path", "/"))
    try:
        result = OPERATIONS[str(request["op"])](os.fsencode(path), request)
    except OSError as error:
        about = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else path
        reason = os.strerror(error.errno) if error.errno else str(error)
        result = {"error": {"kind": "file", "errno": error.errno or 0, "message": reason, "path": about[:4096]}}
    except Exception as error:
        result = {"error": {"kind": "request", "message": f"{type(error).__name__}: {error}"}}
    os.write(2, json.dumps(result).encode("ascii"))
    return 0


def read(path: bytes, _request: Mapping[str, Any]) -> dict[str, Any]:
    """Contents to stdout until the end of the file, also of /proc files that have no size."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _regular(fd, path)
        _widen(1)
        size = 0
        while chunk := os.read(fd, _CHUNK):
            _write_all(1, chunk)
            size += len(chunk)
        return {"size": size}
    finally:
        os.close(fd)


def write(path: bytes, request: Mapping[str, Any]) -> dict[str, Any]:
    """Contents from stdin into a nameless file beside the target, which then takes its place in one step.

    A killed helper leaves nothing. Mode and owner are those asked for, else those of the file that is replaced.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    if request.get("parents"):
        os.makedirs(folder, exist_ok=True)
    before = _former(target)
    _widen(0)
    fd, temporary = _nameless(folder)
    try:
        size = 0
        while chunk := os.read(0, _CHUNK):
            _write_all(fd, chunk)
            size += len(chunk)
        _own(fd, request.get("owner"), before)
        mode = request.get("mode")
        os.fchmod(fd, mode if isinstance(mode, int) else stat.S_IMODE(before.st_mode) if before else 0o644)
        if request.get("sync"):
            os.fsync(fd)
        if not temporary:
            temporary = _temporary_name(folder)
            _give_name(fd, temporary)
        os.rename(temporary, target)
        temporary = b""
        if request.get("sync"):
            _sync_folder(folder)
        return {"size": size}
    finally:
        os.close(fd)
        if temporary:
            os.unlink(temporary)


def status(path: bytes, _request: Mapping[str, Any]) -> dict[str, Any]:
    """Of the path itself: a link is not followed."""
    return describe(path, os.lstat(path))


def listing(path: bytes, _request: Mapping[str, Any]) -> dict[str, Any]:
    """One JSON line an entry on stdout, in the folder's own order. What vanishes meanwhile is left out."""
    count = 0
    held = bytearray()
    for line in _entries(path):
        held += line
        count += 1
        if len(held) > 32768:
            _write_all(1, held)
            held.clear()
    _write_all(1, held)
    return {"entries": count}


def exists(path: bytes, _request: Mapping[str, Any]) -> dict[str, Any]:
    """Only "no such file" is a no; a dangling link exists."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return {"exists": False}
    return {"exists": True}


def remove(path: bytes, request: Mapping[str, Any]) -> dict[str, Any]:
    """A file, a link (never what it points to), an empty folder; with `recursive` a full one."""
    if stat.S_ISDIR(os.lstat(path).st_mode):
        if request.get("recursive"):
            _go_deep()
            shutil.rmtree(path)
        else:
            os.rmdir(path)
    else:
        os.unlink(path)
    return {}


def make_folder(path: bytes, request: Mapping[str, Any]) -> dict[str, Any]:
    """With `parents`, missing ones too, and one that is there is no error."""
    mode = request.get("mode")
    mode = mode if isinstance(mode, int) else 0o755
    if request.get("parents"):
        os.makedirs(path, mode, exist_ok=True)
    else:
        os.mkdir(path, mode)
    return {}


def sync(_path: bytes, _request: Mapping[str, Any]) -> dict[str, Any]:
    """Write out all file systems."""
    os.sync()
    return {}


OPERATIONS: dict[str, Callable[[bytes, Mapping[str, Any]], dict[str, Any]]] = {
    "file.read": read,
    "file.write": write,
    "file.stat": status,
    "file.list": listing,
    "file.exists": exists,
    "file.remove": remove,
    "file.mkdir": make_folder,
    "sync": sync,
}


def describe(path: bytes, found: os.stat_result) -> dict[str, Any]:
    """A stat result as JSON. `mode` has the permission bits alone."""
    kind = _TYPES.get(stat.S_IFMT(found.st_mode), "unknown")
    return {
        "type": kind,
        "size": found.st_size,
        "mode": stat.S_IMODE(found.st_mode),
        "uid": found.st_uid,
        "gid": found.st_gid,
        "mtime_ns": found.st_mtime_ns,
        "target": os.fsdecode(os.readlink(path)) if kind == "link" else None,
    }


def _entries(path: bytes) -> Iterator[bytes]:
    with os.scandir(path) as entries:
        for entry in entries:
            try:
                about = describe(entry.path, entry.stat(follow_symlinks=False))
            except FileNotFoundError:
                continue
            yield json.dumps({"name": os.fsdecode(entry.name), **about}).encode("ascii") + b"\n"


def _go_deep() -> None:
    """One level of folders is one of calls and one descriptor."""
    sys.setrecursionlimit(1_000_000)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _former(target: bytes) -> os.stat_result | None:
    try:
        found = os.lstat(target)
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "", target)
    if stat.S_ISLNK(found.st_mode):
        raise OSError(errno.ELOOP, "", target)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(errno.EINVAL, "", target)
    return found


def _regular(fd: int, path: bytes) -> None:
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "", path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "", path)


def _nameless(folder: bytes) -> tuple[int, bytes]:
    """A file without a name, or a named one where the file system has no O_TMPFILE."""
    try:
        return os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o600), b""
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
    name = _temporary_name(folder)
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), name


def _temporary_name(folder: bytes) -> bytes:
    return os.path.join(folder, b".stormcell-" + secrets.token_hex(8).encode())


def _give_name(fd: int, name: bytes) -> None:
    """linkat(2) with AT_SYMLINK_FOLLOW, for which Python wants a folder descriptor."""
    descriptors = os.open("/proc/self/fd", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.link(str(fd), name, src_dir_fd=descriptors, follow_symlinks=True)
    finally:
        os.close(descriptors)


def _own(fd: int, owner: object, before: os.stat_result | None) -> None:
    if isinstance(owner, str):
        user, _, group = owner.partition(":")
        uid, own = _identity(user)
        os.fchown(fd, uid, _group(group) if group else own)
    elif before and (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
        os.fchown(fd, before.st_uid, before.st_gid)


def _identity(user: str) -> tuple[int, int]:
    if user.isdigit():
        return int(user), -1
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        raise ValueError(f"no such user: {user}") from None
    return entry.pw_uid, entry.pw_gid


def _group(group: str) -> int:
    if group.isdigit():
        return int(group)
    try:
        return grp.getgrnam(group).gr_gid
    except KeyError:
        raise ValueError(f"no such group: {group}") from None


def _sync_folder(folder: bytes) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _write_all(fd: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _widen(fd: int) -> None:
    """A bigger pipe means fewer turns between us and the agent; a smaller one works too."""
    try:
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE)
    except OSError:
        pass
