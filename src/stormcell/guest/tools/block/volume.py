"""Data volumes: a folder that lies on a device of its own, under which a fault can swap the table.

A file on the root disk, a loop device over it (direct I/O where it can be had), a device-mapper device over that, an
ext4 file system with quotas on it, mounted on the path. While no fault acts the table is one `linear` line.
"""

from __future__ import annotations

import grp
import json
import os
import pwd
import re
import stat
import subprocess
from typing import Any

from stormcell.guest import spawn
from stormcell.guest.tools import common, mounts, openers
from stormcell.guest.tools.block import dm, loops

LIST = "/etc/stormcell/volumes.json"
"""What there is to be at every boot."""
IMAGES = "/var/lib/stormcell/volumes"
PREFIX = "stormcell-"
LEAST = 16 << 20
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}\Z")
_MODULES = ("loop", "dm-mod", "quota_v2")
_MKFS = (
    "mkfs.ext4", "-q", "-F", "-b", "4096", "-i", "16384", "-O", "quota,project",
    "-E", "quotatype=usrquota:grpquota:prjquota,lazy_itable_init=1,nodiscard",
)  # fmt: skip
_OPTIONS = "errors=remount-ro,usrquota,grpquota,prjquota,noinit_itable"
_PROGRAM_S = 120
_ENV = {"PATH": spawn.SEARCH_PATH, "LC_ALL": "C"}


def make(name: str, path: str, size: str, owner: str = "") -> dict[str, Any]:
    """Make a volume of `size` bytes (or 256MiB) and mount it on `path`, with what is there copied into it.

    It is there again after every boot. Refused while processes have something open below the path.
    """
    entry = {"name": name, "path": path, "size": _bytes(size), "owner": owner}
    listed = _listed()
    if any(name == other["name"] for other in listed):
        raise ValueError(f"there is a volume '{name}' already")
    _build(entry)
    _start(entry, fresh=True)
    _write_list([*listed, entry])
    return show()[name]  # type: ignore[no-any-return]


def load() -> dict[str, Any]:
    """Make and mount what is in the list. Raises OSError, ValueError for the first that cannot be."""
    for entry in _listed():
        if fresh := not os.path.exists(_image(entry["name"])):
            _build(entry)
        if not dm.exists(PREFIX + entry["name"]):
            _start(entry, fresh)
    return show()


def show() -> dict[str, Any]:
    """Every volume by name: where it is, on what, and its table."""
    return {entry["name"]: _shown(entry) for entry in _listed()}


def remove(name: str, back: str = "") -> None:
    """Take a volume away; the folder shows again what it held before. `back`: contents are copied there."""
    if back not in ("", "back"):
        raise ValueError("volume remove takes a name, and the word 'back' to keep the contents")
    entry = next((entry for entry in _listed() if entry["name"] == name), None)
    if entry is None:
        raise ValueError(f"there is no volume '{name}'")
    path = os.path.realpath(entry["path"])
    if found := openers.below(path):
        raise ValueError(f"{path} is in use by {openers.sentence(found)}")
    aside = f"/run/stormcell/volume-{name}"
    if mounts.at(path) is not None:
        mounts.unmount(path)
    if back:
        os.makedirs(aside, exist_ok=True)
        mounts.mount(dm.node(PREFIX + name), aside, "ext4", mounts.MS_RDONLY | mounts.MS_NOATIME)
        try:
            _program("cp", "-a", "--", f"{aside}/.", path)
        finally:
            mounts.unmount(aside)
            os.rmdir(aside)
    dm.remove(PREFIX + name)
    if (node := loops.over(_image(name))) is not None:
        loops.detach(node)
    os.unlink(_image(name))
    _write_list([other for other in _listed() if other["name"] != name])


def mend(name: str) -> dict[str, Any]:
    """After errors that made ext4 give up: unmount, check, mount. Refused while the volume is in use."""
    entry = next(entry for entry in _listed() if entry["name"] == name)
    path = os.path.realpath(entry["path"])
    if found := openers.below(path):
        raise ValueError(f"{path} is in use by {openers.sentence(found)}")
    mounts.unmount(path)
    try:
        argv = ["e2fsck", "-f", "-y", dm.node(PREFIX + name)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600, env=_ENV)
    finally:
        _mount(entry)
    if done.returncode > 2:  # e2fsck(8): 1 and 2 are errors that were corrected
        raise ValueError(f"e2fsck ended with {done.returncode}: {done.stdout.strip()[-300:]}")
    return {"e2fsck": done.returncode, **_shown(entry)}


def of(path: str) -> str:
    """The name of the device of the volume that holds `path`. Raises LookupError when none does."""
    dev = os.stat(path).st_dev
    name = dm.name_of(dev)
    if name is None or not name.startswith(PREFIX):
        held = mounts.of(path)
        raise LookupError(
            f"{path} is on {held.source} ({held.kind}), which is no data volume; give the template one with `volumes`, "
            f"or move the folder onto one in the setup with `stormcell-guest volume make NAME FOLDER SIZE`"
        )
    return name


def point_of(device: str) -> str:
    """Where the volume of this device is mounted."""
    return str(next(os.path.realpath(e["path"]) for e in _listed() if PREFIX + e["name"] == device))


def _build(entry: dict[str, Any]) -> None:
    name, path, size = entry["name"], entry["path"], entry["size"]
    if not _NAME.match(name):
        raise ValueError(f"'{name}' is no name of a volume; lower-case letters, digits, - and _ are allowed")
    if not path.startswith("/") or os.path.realpath(path) == "/":
        raise ValueError(f"'{path}' is no folder that a volume can be mounted on")
    if size < LEAST:
        raise ValueError(f"a volume of {size} bytes is too small; it is at least {LEAST}")
    os.makedirs(path, exist_ok=True)
    path = os.path.realpath(path)
    if not os.path.isdir(path):
        raise NotADirectoryError(20, "it is no folder", path)
    if mounts.at(path) is not None:
        raise ValueError(f"something is mounted on {path} already")
    if found := openers.below(path):
        raise ValueError(f"{path} is in use by {openers.sentence(found)}; stop them first")
    os.makedirs(IMAGES, mode=0o700, exist_ok=True)
    aside = f"{_image(name)}.new"
    fd = os.open(aside, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, size // 4096 * 4096)
        content = ("-d", path) if os.listdir(path) else ()
        _program(*_MKFS, *content, aside)
        os.fsync(fd)
    except BaseException:
        os.unlink(aside)
        raise
    finally:
        os.close(fd)
    os.rename(aside, _image(name))


def _start(entry: dict[str, Any], fresh: bool) -> None:
    for module in _MODULES:
        if not os.path.isdir(f"/sys/module/{module.replace('-', '_')}"):
            _program("modprobe", "--", module)
    name = PREFIX + entry["name"]
    node = loops.over(_image(entry["name"])) or loops.attach(_image(entry["name"]))
    about = os.stat(node)
    sectors = os.stat(_image(entry["name"])).st_size // dm.SECTOR
    beneath = f"{os.major(about.st_rdev)}:{os.minor(about.st_rdev)} 0"
    try:
        dm.create(name, [dm.Segment(0, sectors, "linear", beneath)])
        _mount(entry)
        if fresh:
            os.rmdir(os.path.join(entry["path"], "lost+found"))  # servers want an empty folder; e2fsck makes it anew
    except OSError:
        dm.remove(name)
        loops.detach(node)
        raise


def _mount(entry: dict[str, Any]) -> None:
    path = os.path.realpath(entry["path"])
    before = os.stat(path)
    mounts.mount(dm.node(PREFIX + entry["name"]), path, "ext4", mounts.MS_NOATIME, _OPTIONS)
    fresh = os.stat(path)
    if entry.get("owner"):
        user, _, group = entry["owner"].partition(":")
        about = pwd.getpwnam(user)
        os.chown(path, about.pw_uid, grp.getgrnam(group).gr_gid if group else about.pw_gid)
    elif (fresh.st_uid, fresh.st_gid) != (before.st_uid, before.st_gid):
        os.chown(path, before.st_uid, before.st_gid)
    if not entry.get("owner"):
        os.chmod(path, stat.S_IMODE(before.st_mode))


def _shown(entry: dict[str, Any]) -> dict[str, Any]:
    name = PREFIX + entry["name"]
    path = os.path.realpath(entry["path"])
    held = mounts.at(path)
    there = dm.exists(name)
    return {
        "path": path,
        "size": entry["size"],
        "device": dm.node(name) if there else None,
        "loop": loops.over(_image(entry["name"])),
        "table": [list(segment) for segment in dm.table(name)] if there else [],
        "mounted": held is not None and dm.name_of(held.dev) == name,
        "read_only": held is not None and held.read_only,
    }


def _image(name: str) -> str:
    return f"{IMAGES}/{name}.img"


def _listed() -> list[dict[str, Any]]:
    text = common.read_text(LIST)
    return list(json.loads(text)) if text else []


def _write_list(entries: list[dict[str, Any]]) -> None:
    os.makedirs(os.path.dirname(LIST), exist_ok=True)
    with open(f"{LIST}.new", "w", encoding="utf-8") as file:
        json.dump(entries, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    os.rename(f"{LIST}.new", LIST)


def _program(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=_PROGRAM_S, errors="replace", env=_ENV)
    if done.returncode:
        raise ValueError(f"`{' '.join(argv[:1])}` ended with {done.returncode}: {done.stderr.strip()[-300:]}")


def _bytes(text: str) -> int:
    match = re.fullmatch(r"([0-9]+)(MiB|GiB|KiB|B)?", text)
    if match is None:
        raise ValueError(f"'{text}' is no size; write for example 256MiB")
    return int(match[1]) * {"MiB": 1 << 20, "GiB": 1 << 30, "KiB": 1 << 10, "B": 1, None: 1}[match[2]]


def main(argv: list[str]) -> int:
    """`volume make|load|show|remove|mend`."""
    verbs: dict[str, common.Verb] = {"make": make, "load": load, "show": show, "remove": remove, "mend": mend}
    return common.serve("volume", verbs, argv)
