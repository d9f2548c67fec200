"""The configuration of a fault's programs: words as a plan has them, and bytes as guest/bpf/fault.bpf.h has them."""

from __future__ import annotations

import errno
import ipaddress
import os
import pwd
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from stormcell.guest.tools import targets
from stormcell.guest.tools.processes import service_folder

CGROUPS = "/sys/fs/cgroup"
AGENT = f"{CGROUPS}/stormcell/agent"
CHANGED = 4095
"""Stands for an errno where a call succeeds with wrong data: no errno is that large."""
BY_SET, BY_CGROUP, BY_USER, BY_ANY = range(4)
NETS, NAME = 8, 64
_HEAD = struct.Struct(f"<IIIIQQQQIIIIQIIIHHII{NAME}s")
SIZE = _HEAD.size + NETS * 32
_ON = struct.Struct("<I")

Words = Mapping[str, str]
Key = tuple[int, int]


@dataclass
class Config:
    """As the kernel has it, field by field; `inodes` and `tgids` are maps of their own."""

    on: int = 0
    err: int = 0
    rate: int = 1_000_000
    every: int = 0
    limit: int = 0
    calls: int = 0
    cgroup: int = 0
    spared: int = 0
    level: int = 0
    by: int = BY_ANY
    uid: int = 0
    descend: int = 0
    parent: int = 0
    device: int = 0
    paths: int = 0
    remote_port: int = 0
    local_port: int = 0
    changed: int = 0
    tracer: int = 0
    name: bytes = b""
    nets: tuple[str, ...] = ()
    inodes: list[Key] = field(default_factory=list)
    tgids: dict[int, int] = field(default_factory=dict)

    def packed(self) -> bytes:
        """For the map."""
        head = _HEAD.pack(
            self.on, self.err, self.rate, self.every, self.limit, self.calls, self.cgroup, self.spared, self.level,
            self.by, self.uid, self.descend, self.parent, self.device, self.paths, len(self.nets), self.remote_port,
            self.local_port, self.changed, self.tracer, self.name,
        )  # fmt: skip
        return (head + b"".join(map(_net_bytes, self.nets))).ljust(SIZE, b"\0")


def unpacked(raw: bytes) -> Config:
    """From the map."""
    (on, err, rate, every, limit, calls, cgroup, spared, level, by, uid, descend, parent, device, paths, nets,
     remote, local, changed, tracer, name) = _HEAD.unpack_from(raw)  # fmt: skip
    texts = tuple(_net_text(raw[_HEAD.size + 32 * n :][:32]) for n in range(min(nets, NETS)))
    return Config(
        on, err, rate, every, limit, calls, cgroup, spared, level, by, uid, descend, parent, device, paths, remote,
        local, changed, tracer, name.rstrip(b"\0"), texts,
    )  # fmt: skip


def _net_bytes(text: str) -> bytes:
    network = ipaddress.ip_network(text)
    if network.version == 4:
        front = b"\0" * 10 + b"\xff\xff"
        return front + network.network_address.packed + b"\xff" * 12 + network.netmask.packed
    return network.network_address.packed + network.netmask.packed


def _net_text(raw: bytes) -> str:
    address, mask = ipaddress.IPv6Address(raw[:16]), int.from_bytes(raw[16:], "big")
    length = mask.bit_count()
    mapped = address.ipv4_mapped
    if mapped is not None and length >= 96:
        return str(mapped) if length == 128 else f"{mapped}/{length - 96}"
    return str(address) if length == 128 else f"{address}/{length}"


def amounts(words: Words, into: Config) -> None:
    """What may change while the fault is in force."""
    into.err = getattr(errno, words["errno"]) if "errno" in words else into.err
    into.rate, into.every = int(words["rate"]), int(words["every"])
    into.limit = int(words["limit"])


def resolved(words: Words, names: Sequence[str]) -> Config:
    """What the words mean now, with calls by their place in `names`. Raises LookupError, OSError and ValueError for
    what is not there."""
    config = Config(on=1, spared=os.stat(AGENT).st_ino, err=CHANGED)
    amounts(words, config)
    config.changed = int(words.get("bytes", 0))
    for name in words["call"].split(","):
        config.calls |= 1 << names.index(name)
    config.remote_port, config.local_port = int(words.get("remote-port", 0)), int(words.get("local-port", 0))
    config.nets = tuple(words["address"].split(",")) if "address" in words else ()
    whom(words, config)
    if "path" in words:
        where(words["path"], config)
    return config


def whom(words: Words, config: Config) -> None:
    """The target: a cgroup and those below it, a user, or a set of processes and (but `main`) their new children."""
    by, what = words.get("by", "any"), words.get("what", "")
    if by in ("service", "cgroup"):
        folder = service_folder(what) if by == "service" else what
        config.by, config.cgroup = BY_CGROUP, os.stat(folder).st_ino
        config.level = len(os.path.relpath(folder, CGROUPS).split("/"))
    elif by == "user" and (user := _user_id(what)) != 0:
        config.by, config.uid = BY_USER, user
    elif by != "any":
        config.by, config.descend = BY_SET, int(by != "main")
        config.tgids = {process.pid: process.start_time for process in targets.find(by, what)}
        if not config.tgids:
            raise LookupError(f"there is no process of {by} '{what}'")


def _user_id(user: str) -> int:
    try:
        return int(user) if user.isdigit() else pwd.getpwnam(user).pw_uid
    except KeyError:
        raise LookupError(f"there is no user '{user}'") from None


def where(path: str, config: Config) -> None:
    """The file of that name, whichever it is when it is used, and its inode under any name; or all below a folder."""
    real = os.path.realpath(path)
    mounts = _mounts()
    config.paths = 1
    if os.path.isdir(real):
        below = [mount for mount in mounts.values() if f"{mount[0]}/".startswith(f"{real.rstrip('/')}/")]
        config.inodes = [_key(real, mounts), *(_key(point, mounts) for point, _ in below if point != real)]
        return
    folder, name = os.path.split(real)
    config.name = os.fsencode(name)
    if len(config.name) >= NAME:
        raise ValueError(f"the name of {path} has more than {NAME - 1} bytes")
    config.parent, config.device = _key(folder, mounts)
    if os.path.exists(real):
        config.inodes = [_key(real, mounts)]


def _key(path: str, mounts: Mapping[int, tuple[str, int]]) -> Key:
    """Inode and the kernel's device of the file system; st_dev is another number on some (btrfs, overlayfs)."""
    fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with open(f"/proc/self/fdinfo/{fd}", encoding="ascii") as file:
            mount = next(int(line.split()[1]) for line in file if line.startswith("mnt_id:"))
        told = os.fstat(fd)
    finally:
        os.close(fd)
    device = mounts[mount][1] if mount in mounts else os.major(told.st_dev) << 20 | os.minor(told.st_dev)
    return told.st_ino, device


def _mounts() -> dict[int, tuple[str, int]]:
    """Mount id to mount point and device, as the kernel counts devices."""
    found: dict[int, tuple[str, int]] = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            fields = line.split()
            major, _, minor = fields[2].partition(":")
            point = fields[4].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
            found[int(fields[0])] = (point, int(major) << 20 | int(minor))
    return found


def as_words(config: Config, asked: Words, now: Config | None, names: Sequence[str]) -> dict[str, str]:
    """The kernel's configuration in the words of the plan. What is found by name (target, path) is said only when the
    kernel has what the name means `now`."""
    told = {
        "call": ",".join(name for number, name in enumerate(names) if config.calls >> number & 1),
        "rate": str(config.rate),
        "every": str(config.every),
        "limit": str(config.limit),
    }
    if config.err not in (0, CHANGED):
        told["errno"] = errno.errorcode.get(config.err, str(config.err))
    told |= {"bytes": str(config.changed)} if config.changed else {}
    if config.nets:
        told["address"] = ",".join(config.nets)
    told |= {"remote-port": str(config.remote_port)} if config.remote_port else {}
    told |= {"local-port": str(config.local_port)} if config.local_port else {}
    if now is not None and (config.by, config.descend) == (now.by, now.descend):
        same = (config.cgroup, config.level, config.uid) == (now.cgroup, now.level, now.uid)
        told |= {key: asked[key] for key in ("by", "what") if key in asked} if same else {}
    named = now is not None and (config.name, config.parent, config.device) == (now.name, now.parent, now.device)
    if now is not None and config.paths and named and (config.name or set(now.inodes) <= set(config.inodes)):
        told["path"] = asked.get("path", "")
    return told
