"""What the guest consists of, so far as a fault can change it: taken before the first act and after the last undo.

Counters, handles and whatever moves by itself are left out, so that two inventories of an untouched guest are equal.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stormcell.guest import nodes
from stormcell.guest.running import Run

Pairs = Mapping[str, str] | Iterator[tuple[str, str]]
Inventory = dict[str, dict[str, str]]
"""What, then name, then state."""

CLOCK_STEP_S = 0.1
"""A wall clock that moved by less is the same one."""
_CGROUPS = "/sys/fs/cgroup"
_DEVICES = "/sys/class/net"
_LIMITS = (
    "memory.max", "memory.high", "memory.swap.max", "cpu.max", "cpu.weight", "cpuset.cpus", "pids.max", "io.max",
    "cgroup.freeze",
)  # fmt: skip
_SYSCTLS = ("net/core", "net/ipv4", "net/netfilter", "vm", "kernel", "fs")
_MOVING = re.compile(
    r"/proc/sys/(kernel/(random/.*|ns_last_pid|tainted|pty/nr|sched_domain/.*|perf_.*|cap_last_cap|bpf_stats_enabled)|"
    r"fs/(dentry-state|file-nr|inode-nr|inode-state|aio-nr|quota/.*|mqueue/.*)|"
    r"net/ipv4/(route/flush|tcp_fastopen_key|.*stable_secret)|net/ipv6/conf/.*(stable_secret|/mtu)|"
    r"net/netfilter/nf_conntrack_count|vm/(stat_refresh|compact_memory|drop_caches))\Z"
)
_OURS = "stormcell"
"""Programs of faults are pinned there before the act, switched off; each fault judges its own."""
_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/localtime", "/etc/timezone")


def take(run: Run) -> Inventory:
    """Every part; one that cannot be taken is empty. What is a node's own is told beside the machine's."""
    network = _network(run)
    found = _taken(
        {
            "queues": lambda: dict(map(_queue, json.loads(run({"argv": ["tc", "-j", "qdisc", "show"]}).out))),
            "rules": lambda: _rules(run({"argv": ["nft", "-j", "list", "ruleset"]}).out),
            "links": lambda: dict(_link(item) for item in network if "ifname" in item),
            "routes": lambda: dict(_route(item) for item in network if "dst" in item),
            "mounts": _mounts,
            "devices": _devices,
            "sysctls": _sysctls,
            "cgroups": _cgroups,
            "clocks": _clocks,
            "files": _files,
            "swaps": _swaps,
            "processors": lambda: {"online": _text("/sys/devices/system/cpu/online")},
            "programs": lambda: {name: "pinned" for name in _names("/sys/fs/bpf") if name != _OURS},
            "processes": _processes,
        }
    )
    for node in _names(nodes.FOLDER):
        if os.path.isdir(f"{nodes.FOLDER}/{node}"):
            told = run({"argv": ["stormcell-guest", "inventory", "node"], "node": node}).out
            for what, items in json.loads(told or "{}").items():
                found[what] |= {f"{node}: {name}": state for name, state in items.items()}
    return found


def take_node() -> Inventory:
    """Of the node in which we are, without starting a program: there may be many nodes."""
    from stormcell.guest.tools.net import qdiscs, state
    from stormcell.guest.tools.net.netlink import Netlink
    from stormcell.guest.tools.net.nft import nft

    with Netlink(socket.NETLINK_ROUTE) as kernel:
        entries = {device: state.entries(kernel, device) for device in _names(_DEVICES)}
        return _taken(
            {
                "queues": lambda: dict(map(_queue, qdiscs.listing(kernel))),
                "rules": lambda: _rules(nft("list ruleset", as_json=True)),
                "links": lambda: {
                    device: f"flags {_text(f'{_DEVICES}/{device}/flags')} mtu {_text(f'{_DEVICES}/{device}/mtu')}"
                    for device in entries
                },
                "routes": lambda: {
                    f"{entry.name} {device}": "there" for device, found in entries.items() for entry in found
                },
                "mounts": _mounts,
            }
        )


def _taken(parts: Mapping[str, Callable[[], Pairs]]) -> Inventory:
    found: Inventory = {}
    for what, part in parts.items():
        try:
            found[what] = dict(part())
        except (OSError, ValueError, LookupError, TypeError):
            found[what] = {}
    return found


def differences(before: Inventory, after: Inventory) -> list[dict[str, Any]]:
    """{what, name, before, undone} of everything that is not as it was; None where it is not there."""
    found = []
    for what in before:
        one, other = before[what], after.get(what, {})
        # the sysctls of a module come with it, and modules stay
        names = one.keys() & other.keys() if what == "sysctls" else one.keys() | other.keys()
        for name in sorted(names):
            was, now = one.get(name), other.get(name)
            if was != now and not (what == "clocks" and _close(was, now)):
                found.append({"what": what, "name": name, "before": was, "undone": now})
    return found


def _close(was: str | None, now: str | None) -> bool:
    try:
        return abs(float(was or "nan") - float(now or "nan")) <= CLOCK_STEP_S
    except ValueError:
        return False


def _network(run: Run) -> list[dict[str, Any]]:
    """Addresses and routes. What a router announces comes and goes by itself, and is left out."""
    done = run({"argv": ["ip", "-j", "-batch", "-"], "stdin": "address show\nroute show table all\n"})
    decoder, found, text = json.JSONDecoder(), [], done.out.strip()
    while text:
        items, end = decoder.raw_decode(text)
        found += [item for item in items if isinstance(item, dict) and item.get("protocol") != "ra"]
        text = text[end:].lstrip()
    return found


def _queue(item: dict[str, Any]) -> tuple[str, str]:
    kept = {key: item.get(key) for key in ("kind", "root", "options")}
    return f"{item.get('dev')} {item.get('parent', 'root')} {item.get('handle')}", json.dumps(kept, sort_keys=True)


def _link(item: dict[str, Any]) -> tuple[str, str]:
    flags = sorted(set(item.get("flags", ())) & {"UP", "LOWER_UP", "NO-CARRIER", "PROMISC"})
    places = sorted(f"{a.get('local')}/{a.get('prefixlen')}" for a in item.get("addr_info", ()) if not a.get("dynamic"))
    return str(item.get("ifname")), " ".join([*flags, f"mtu {item.get('mtu')}", *places])


def _route(item: dict[str, Any]) -> tuple[str, str]:
    kept = {key: item.get(key) for key in ("gateway", "prefsrc", "scope", "metric", "type")}
    table, device = item.get("table", "main"), item.get("dev")
    return f"{item.get('dst')} {device} {table} {item.get('metric', '')}".strip(), json.dumps(kept, sort_keys=True)


def _rules(ruleset: str) -> Iterator[tuple[str, str]]:
    """nftables, by table: handles and counters left out."""
    shown = json.loads(ruleset or "{}").get("nftables", [])
    tables: dict[str, list[str]] = {}
    for entry in shown:
        for kind, item in entry.items():
            if kind != "metainfo":
                name = f"{item.get('family')} {item.get('name') if kind == 'table' else item.get('table')}"
                tables.setdefault(name, []).append(json.dumps([kind, _still(item)], sort_keys=True))
    yield from ((name, "\n".join(parts)) for name, parts in tables.items())


def _still(item: Any) -> Any:
    if isinstance(item, dict):
        return {key: _still(value) for key, value in item.items() if key not in ("handle", "packets", "bytes")}
    return [_still(part) for part in item] if isinstance(item, list) else item


def _mounts() -> Iterator[tuple[str, str]]:
    """proc(5), mountinfo: the fields after the separator are type, source and options of the file system."""
    for line in _lines("/proc/self/mountinfo"):
        head, _, tail = line.partition(" - ")
        fields = head.split()
        yield f"{fields[4]} ({fields[3]})", f"{fields[5]} {tail}"


def _devices() -> Iterator[tuple[str, str]]:
    for name in _names("/sys/block"):
        where = f"/sys/block/{name}"
        if name.startswith("dm-"):
            yield f"dm {_text(f'{where}/dm/name')}", f"suspended {_text(f'{where}/dm/suspended')}"
        elif name.startswith("loop") and os.path.exists(f"{where}/loop/backing_file"):
            yield name, _text(f"{where}/loop/backing_file")
        elif not name.startswith("loop"):
            yield name, f"read-only {_text(f'{where}/ro')} size {_text(f'{where}/size')}"


def _sysctls() -> Iterator[tuple[str, str]]:
    for part in _SYSCTLS:
        for folder, _, names in os.walk(f"/proc/sys/{part}"):
            for name in names:
                path = f"{folder}/{name}"
                if not _MOVING.match(path):
                    try:
                        yield path[10:].replace("/", "."), _raw(path)
                    except OSError:  # write-only, or gone with its device
                        continue


def _cgroups() -> Iterator[tuple[str, str]]:
    """Services and whatever else was made; the control path's groups come and go with every command."""
    for folder, folders, names in os.walk(_CGROUPS):
        if folder == _CGROUPS and "stormcell" in folders:
            folders.remove("stormcell")
        if os.path.dirname(folder) == nodes.CGROUPS:
            folders.remove(nodes.COMMANDS)  # a group for each load, and it goes with it
        limits = [f"{name} {_text(f'{folder}/{name}')}" for name in _LIMITS if name in names]
        yield folder[len(_CGROUPS) :] or "/", "; ".join(limits)


def _clocks() -> Iterator[tuple[str, str]]:
    offset = time.clock_gettime(time.CLOCK_REALTIME) - time.clock_gettime(time.CLOCK_BOOTTIME)
    yield "realtime - boottime", f"{offset:.3f}"


def _swaps() -> Iterator[tuple[str, str]]:
    """Without what of it is used."""
    for line in _lines("/proc/swaps")[1:]:
        name, kind, size, _, priority = line.split()
        yield name, f"{kind} {size} priority {priority}"


def _files() -> Iterator[tuple[str, str]]:
    for path in _FILES:
        if os.path.lexists(path):
            yield path, os.readlink(path) if os.path.islink(path) else _text(path)


def _processes() -> Iterator[tuple[str, str]]:
    """What goes on in the cgroups of faults: holders, fillers, loads of ours that should be gone."""
    for folder, _, _ in os.walk(f"{_CGROUPS}/stormcell/faults"):
        for pid in _lines(f"{folder}/cgroup.procs"):
            yield f"process {pid}", _text(f"/proc/{pid}/comm")


def _names(folder: str) -> list[str]:
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def _raw(path: str) -> str:
    """Of a thousand files, a buffered open of each would take seconds in an emulated guest."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, 4096).decode(errors="replace").strip()
    finally:
        os.close(fd)


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(65536).strip()


def _lines(path: str) -> list[str]:
    return _text(path).splitlines()


def main(argv: list[str]) -> int:
    """`inventory`: prints it; `inventory node`: what is the own of the node in which we are."""
    from stormcell.guest.lifeline import Lifeline
    from stormcell.guest.running import Runnery

    if argv == ["node"]:
        sys.stdout.write(json.dumps(take_node()) + "\n")
        return 0
    sys.stdout.write(json.dumps(take(Runnery(Lifeline(None)).run)) + "\n")
    return 0
