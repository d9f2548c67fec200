"""Faults that are programs in the kernel (eBPF): load, switch on, change, read back, remove.

The pins below /sys/fs/bpf/stormcell hold all of a fault, so that it stands while no process of ours runs and can be
removed by any.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Sequence
from typing import Any

from stormcell.guest.tools import common
from stormcell.guest.tools.bpf import calls, delays, kernel, loader
from stormcell.guest.tools.bpf import config as bpf_config
from stormcell.guest.tools.bpf.config import Config

_KEY = struct.pack("<I", 0)
_TOTALS = struct.Struct("<QQQ")
_HIT_KEY, _HIT = struct.Struct("<IHH"), struct.Struct("<Q16s")
_INODE, _TGID, _START = struct.Struct("<QQ"), struct.Struct("<I"), struct.Struct("<Q")
DESCENT = ["on_fork", "on_exit"]
_FOUND_BY_SET = ("main", "pid", "name", "port", "user")


def names_of(object_name: str) -> list[str]:
    """The groups of calls by number."""
    return [group.name for group in (delays.GROUPS if object_name == "delay" else calls.CALLS)]


def words_of(given: tuple[str, ...]) -> dict[str, str]:
    """`key=value` words as a table."""
    pairs = [word.partition("=") for word in given]
    return {key: value for key, _, value in pairs}


def programs_of(object_name: str, words: dict[str, str]) -> list[str]:
    """What this fault needs; those of descent whenever the target may turn out to be a set of processes."""
    of_object = {"corrupt": ["vfs_read", "vfs_readv"], "delay": ["sys_exit"]}
    hooks = of_object.get(object_name) or calls.hooks_of(words["call"].split(","))
    return hooks + (DESCENT if words.get("by") in _FOUND_BY_SET else [])


def load(mark: str, object_name: str, *given: str) -> None:
    """Ahead of the act: all is attached and switched off, so that the act is one write."""
    loaded(mark, object_name, programs_of(object_name, words_of(given)))


def loaded(mark: str, object_name: str, programs: list[str]) -> str:
    """Load and attach what is not, switched off. Returns the folder. Raises ValueError when it is in force."""
    folder = loader.place(mark)
    if os.path.exists(folder):
        if _is_on(folder):
            raise ValueError(f"a fault of the name '{mark}' is in force already")
        if any(not os.path.exists(f"{folder}/link_{name}") for name in programs):
            loader.unload(mark)  # of a run that never came to its act
    loader.load(mark, object_name, programs)
    for name in programs:
        _attach(folder, name)
    return folder


def _is_on(folder: str) -> bool:
    try:
        with map_of(folder, "config", 4, bpf_config.SIZE) as table:
            return bool(_read_config(table).on)
    except FileNotFoundError:
        return False


def apply(mark: str, object_name: str, *given: str) -> dict[str, Any]:
    """Find the target, then switch on by one write. Raises what `bpf_config.resolved` raises."""
    words = words_of(given)
    return switch_on(mark, object_name, words, bpf_config.resolved(words, names_of(object_name)))


def switch_on(mark: str, object_name: str, words: dict[str, str], config: Config) -> dict[str, Any]:
    """The same with a target that is found already."""
    programs = programs_of(object_name, words)
    folder = loaded(mark, object_name, programs)
    with map_of(folder, "inodes", 16, 4) as inodes, map_of(folder, "targets", 4, 8) as tgids:
        for inode, device in config.inodes:
            inodes.put(_INODE.pack(inode, device), _KEY)
        for tgid, start in config.tgids.items():
            tgids.put(_TGID.pack(tgid), _START.pack(start))
    with map_of(folder, "config", 4, bpf_config.SIZE) as table:
        table.put(_KEY, config.packed())
    return {"programs": programs, "targets": sorted(config.tgids), "files": len(config.inodes)}


def _attach(folder: str, name: str) -> None:
    if os.path.exists(f"{folder}/link_{name}"):
        return
    program = kernel.get(f"{folder}/prog_{name}")
    try:
        link = kernel.attach(program)
        try:
            kernel.pin(link, f"{folder}/link_{name}")
        finally:
            os.close(link)
    finally:
        os.close(program)


def change(mark: str, *given: str) -> dict[str, str]:
    """Other amounts (errno, rate, every, limit) for a fault that is in force, in one write."""
    with map_of(loader.place(mark), "config", 4, bpf_config.SIZE) as table:
        config = _read_config(table)
        bpf_config.amounts(words_of(given), config)
        table.put(_KEY, config.packed())
    return {"errno": errno.errorcode.get(config.err, ""), "rate": str(config.rate), "every": str(config.every)}


def show(mark: str, object_name: str, *given: str) -> dict[str, Any]:
    """Links, configuration, counts and processes as the kernel has them."""
    folder = loader.place(mark)
    asked = words_of(given)
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return {"links": [], "config": {}, "totals": {}, "hits": [], "targets": [], "on": False}
    links = [name.removeprefix("link_") for name in names if name.startswith("link_") and _alive(f"{folder}/{name}")]
    with map_of(folder, "config", 4, bpf_config.SIZE) as table:
        config = _read_config(table)
    with map_of(folder, "totals", 4, _TOTALS.size) as table:
        matched, acted, lost = _TOTALS.unpack(table.take(_KEY) or bytes(_TOTALS.size))
    with map_of(folder, "targets", 4, 8) as table:
        tgids = sorted(_TGID.unpack(key)[0] for key in table.keys())  # noqa: SIM118 - no dict
    with map_of(folder, "inodes", 16, 4) as table:
        config.inodes = [_INODE.unpack(key) for key in table.keys()]  # noqa: SIM118 - no dict
    return {
        "links": links,
        "config": bpf_config.as_words(config, asked, _now(asked), names_of(object_name)),
        "totals": {"matched": matched, "acted": acted, "lost": lost},
        "hits": _hits(folder, names_of(object_name)),
        "targets": tgids,
        "on": bool(config.on),
    }


def _now(asked: dict[str, str]) -> Config | None:
    """What target and path mean now; a set of processes need not be there any more."""
    try:
        config = Config()
        by = asked.get("by", "any")
        if by in _FOUND_BY_SET:
            try:
                bpf_config.whom(asked, config)
            except LookupError:
                config.by, config.descend = bpf_config.BY_SET, int(by != "main")
        else:
            bpf_config.whom(asked, config)
        if "path" in asked:
            bpf_config.where(asked["path"], config)
    except (OSError, ValueError, LookupError):
        return None
    return config


def _alive(path: str) -> bool:
    try:
        fd = kernel.get(path)
    except OSError:
        return False
    try:
        return kernel.link_id(fd) > 0
    finally:
        os.close(fd)


def _hits(folder: str, names: Sequence[str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    with map_of(folder, "hits", 8, _HIT.size) as table:
        for key, value in table.items():
            (tgid, call, err), (count, comm) = _HIT_KEY.unpack(key), _HIT.unpack(value)
            name = comm.partition(b"\0")[0].decode(errors="replace")
            found.append(
                {
                    "pid": tgid,
                    "comm": name,
                    "call": names[call] if call < len(names) else str(call),
                    "errno": _errno(err),
                    "count": count,
                }
            )
    return sorted(found, key=lambda hit: (hit["pid"], hit["call"], hit["errno"]))


def _errno(number: int) -> str:
    return "hit" if number == bpf_config.CHANGED else errno.errorcode.get(number, str(number)) if number else ""


def map_of(folder: str, name: str, key: int, value: int) -> kernel.Map:
    """One of a fault's maps, with the sizes of key and value."""
    return kernel.Map(f"{folder}/map_{name}", key, value)


def _read_config(table: kernel.Map) -> Config:
    return bpf_config.unpacked(table.take(_KEY) or bytes(bpf_config.SIZE))


def clear(mark: str) -> None:
    """Off at once, then gone: the kernel detaches a link some milliseconds after its last pin went away."""
    try:
        with map_of(loader.place(mark), "config", 4, bpf_config.SIZE) as table:
            table.put(_KEY, Config().packed())
    except FileNotFoundError:
        pass
    loader.unload(mark)


def main(argv: list[str]) -> int:
    """`bpf load|apply|change|show|clear`."""
    verbs: dict[str, common.Verb] = {"load": load, "apply": apply, "change": change, "show": show, "clear": clear}
    return common.serve("bpf", verbs, argv)
