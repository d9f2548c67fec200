"""Swap the table under a data volume: the faults of its disk, what the kernel counted meanwhile, and the way back.

A process that has files open goes on: between two requests the device gets another table (suspend, load, resume).
"""

from __future__ import annotations

import os
import stat
import time
from typing import Any

from stormcell.guest.tools import claims, common, counters, openers, refusals
from stormcell.guest.tools.block import dm, extents, filecache, shadow, volume

QUEUED, FAILED = "block/block_bio_queue", "block/block_bio_complete"
_DISK, _ERROR = "@disk", "@error"
_STAT = ("reads", "read_sectors", "read_ms", "writes", "write_sectors", "write_ms", "in_flight")
_STAT_AT = (0, 2, 3, 4, 6, 7, 8)
_MET = {"reads": 1, "read_sectors": 3, "writes": 5, "write_sectors": 7, "read_ns": 4, "write_ns": 8}
_HISTOGRAM = 14


def act(
    mark: str, path: str, share: str, cache: str, slow_ns: str, wait_s: str, target: str, args: str
) -> dict[str, Any]:
    """Give the device that holds `path` (a file: its blocks alone) a table with `target` in `share` per cent of it.

    In `args`, `@disk` stands for the disk beneath and the offset there, `@error` for a device on which everything
    fails, and the same offset; `@shadow:BYTE:VALUE` for a copy of the bad sectors with that byte of each block wrong,
    and the offset there. `slow_ns`: count the requests that take at least so long. `wait_s`: seconds between the
    load of the table, from which `flakey` counts its intervals, and its use.
    """
    device = volume.of(path)
    claims.take(mark, [f"table {device}"], f"the device of {path} ({device})", "changed")
    before = dm.table(device)
    if len(before) != 1 or before[0].target != "linear":
        shown = ", ".join(sorted({segment.target for segment in before}))
        raise ValueError(f"another fault ({shown}) is on the device of {path} already")
    disk = before[0]
    ranges = extents.of_file(path) if stat.S_ISREG(os.stat(path).st_mode) else [(0, disk.length)]
    note: dict[str, Any] = {
        "device": device,
        "disk": list(disk),
        "of": sum(length for _, length in ranges),
        "bad": extents.share(ranges, float(share)),
        "cache": cache,
        "path": path,
        "files_dropped": filecache.drop(path, dm.node(device)) if cache == "drop" else None,
        "errors": _errors(device),
        "met": dict.fromkeys((*_MET, "slow"), 0),
    }
    common.put_mark(mark, note)
    if _ERROR in args:
        dm.create(_helper(device), [dm.Segment(0, disk.length, "error", "")])
    if found := shadow.PATTERN.search(args):
        place = dm.path_of(disk.args.partition(" ")[0])
        shadow.make(_shadow(device), place, int(disk.args.split()[1]), note["bad"], int(found[1]), found[2])
    _count(mark, device, _fails(target, args))
    _watch(mark, note, int(slow_ns))
    dm.load(device, _table(note, target, args))
    note["loaded_ns"] = time.monotonic_ns()
    if float(wait_s):
        time.sleep(float(wait_s))
    note["at_act"] = _stats(device, note["disk"])
    common.put_mark(mark, note)
    dm.swap(device)
    return {"device": device, "bad": note["bad"], "files_dropped": note["files_dropped"]}


def change(mark: str, slow_ns: str, target: str, args: str) -> dict[str, Any]:
    """Other amounts of the same fault, in the same sectors. What was counted so far stays counted."""
    note = common.get_mark(mark)
    if note is None:
        raise ValueError(f"the fault '{mark}' is not in force")
    note["met"] = _met(mark, note)
    _unwatch(mark, note["device"])
    _watch(mark, note, int(slow_ns))
    dm.load(note["device"], _table(note, target, args))
    note["loaded_ns"] = time.monotonic_ns()
    common.put_mark(mark, note)
    dm.swap(note["device"])
    return {"device": note["device"]}


def heal(mark: str) -> dict[str, Any] | None:
    """Put the old table back, as the mark tells. A file system that gave up is mended when nobody uses it."""
    note = common.get_mark(mark)
    claims.drop(mark)
    if note is None:
        return None
    device = note["device"]
    disk = dm.Segment(*note["disk"])
    if dm.exists(device):
        dm.clear(device)
        if dm.table(device) != [disk]:
            dm.load(device, [disk])
            dm.swap(device)
        dm.remove(_helper(device))
        shadow.remove(_shadow(device))
        _unwatch(mark, device)
    counters.stop(mark, (QUEUED, FAILED))
    mended = _mend(device, note["errors"])
    if note["cache"] == "drop" and os.path.exists(note["path"]):
        filecache.drop(note["path"], dm.node(device))
    common.drop_mark(mark)
    return {"device": device, "mended": mended}


def show(mark: str, path: str) -> dict[str, Any]:
    """The table as the kernel has it, the counts since the act, and what the disk and its file system are like."""
    note = common.get_mark(mark)
    device = note["device"] if note else volume.of(path)
    table = [list(segment) for segment in dm.table(device)]
    shown: dict[str, Any] = {
        "device": device,
        "node": dm.node(device),
        "table": table,
        "stats": _stats(device, note["disk"] if note else table[0]),
        "error": _numbers(dm.number(_helper(device))) if dm.exists(_helper(device)) else None,
        "shadow": shadow.number(_shadow(device)),
        "watched": len(_watched(mark, device)),
        "errors": _errors(device),
        "pressure": common.read_text("/proc/pressure/io"),
        "queued": counters.read(mark, QUEUED),
        "failed": counters.read(mark, FAILED),
        "act": note,
    }
    if note is not None:
        shown["met"] = _met(mark, note)
        shown["waiting"] = _waiting(device)
        shown["phase"] = _phase(note, table)
    return shown


def _table(note: dict[str, Any], target: str, args: str) -> list[dm.Segment]:
    """Bad sectors with the target, the others as they were."""
    _, whole, kind, beneath = note["disk"]
    disk, _, offset = beneath.partition(" ")
    error = _helper(note["device"])
    other = f"{_numbers(dm.number(error))}" if _ERROR in args else ""
    found: list[dm.Segment] = []
    at = shadowed = 0
    copy = shadow.number(_shadow(note["device"]))
    for start, length in note["bad"]:
        if start > at:
            found.append(dm.Segment(at, start - at, kind, f"{disk} {int(offset) + at}"))
        words = args.replace(_DISK, f"{disk} {int(offset) + start}").replace(_ERROR, f"{other} {start}")
        found.append(dm.Segment(start, length, target, shadow.PATTERN.sub(f"{copy} {shadowed}", words)))
        at, shadowed = start + length, shadowed + length
    if at < whole:
        found.append(dm.Segment(at, whole - at, kind, f"{disk} {int(offset) + at}"))
    return found


def _helper(device: str) -> str:
    return f"{device}-error"


def _shadow(device: str) -> str:
    return f"{volume.IMAGES}/{device}.shadow"


def _numbers(dev: int) -> str:
    return f"{os.major(dev)}:{os.minor(dev)}"


def _count(mark: str, device: str, fails: bool) -> None:
    """Requests that failed, or else all of them, by process; not those of our own tools."""
    dev = dm.number(device)
    kernels = os.major(dev) << 20 | os.minor(dev)  # MKDEV of the kernel
    counters.stop(mark, (QUEUED, FAILED))
    if fails:  # in the process that asked: it is refused before it is sent on
        counters.start(mark, FAILED, "common_pid.execname,rwbs,error", f"dev == {kernels} && error < 0", "nr_sector")
    else:
        condition = f'dev == {kernels} && !(comm ~ "{refusals.OURS}*")'
        counters.start(mark, QUEUED, "common_pid.execname,rwbs", condition, "nr_sector")


def _fails(target: str, args: str) -> bool:
    """Does this target refuse requests?"""
    return target == "error" or _ERROR in args or (target == "flakey" and args.endswith((" 0", " error_writes")))


def _tag(mark: str) -> str:
    return f"stormcell-{mark}"


def _watch(mark: str, note: dict[str, Any], slow_ns: int) -> None:
    """Have the device-mapper count and time every request in the bad sectors, and how many took at least `slow_ns`."""
    options = f"2 precise_timestamps histogram:{slow_ns}" if slow_ns else "1 precise_timestamps"
    for start, length in note["bad"]:
        dm.message(note["device"], f"@stats_create {start}+{length} {length} {options} {_tag(mark)}")


def _watched(mark: str, device: str) -> list[str]:
    """Numbers of our regions. As Documentation/admin-guide/device-mapper/statistics.rst has it."""
    listed = dm.message(device, f"@stats_list {_tag(mark)}")
    return [line.partition(":")[0] for line in listed.splitlines() if line]


def _unwatch(mark: str, device: str) -> None:
    for region in _watched(mark, device):
        dm.message(device, f"@stats_delete {region}")


def _met(mark: str, note: dict[str, Any]) -> dict[str, int]:
    """Requests that met the bad sectors since the act, and those of them that were slow."""
    sums = dict(note["met"])
    for region in _watched(mark, note["device"]):
        words = dm.message(note["device"], f"@stats_print {region}").split()
        for name, at in _MET.items():
            sums[name] += int(words[at]) if at < len(words) else 0
        if len(words) > _HISTOGRAM:
            sums["slow"] += int(words[_HISTOGRAM].rpartition(":")[2])
    return sums


def _waiting(device: str) -> int:
    """Requests that dm-delay holds at this moment."""
    held = [segment.args.split() for segment in dm.status(device) if segment.target == "delay"]
    return sum(int(word) for words in held for word in words if word.isdigit())


def _stats(device: str, disk: list[Any]) -> dict[str, dict[str, int]]:
    """Of the device and of the disk beneath it."""
    return {"device": _stat(_numbers(dm.number(device))), "disk": _stat(str(disk[3]).partition(" ")[0])}


def _stat(numbers: str) -> dict[str, int]:
    words = (common.read_text(f"/sys/dev/block/{numbers}/stat") or "").split()
    return {name: int(words[at]) for name, at in zip(_STAT, _STAT_AT, strict=True) if at < len(words)}


def _phase(note: dict[str, Any], table: list[list[Any]]) -> dict[str, Any] | None:
    """Where `flakey` is in its intervals, which it counts in whole seconds from the load of its table."""
    words = next((segment[3].split() for segment in table if segment[2] == "flakey"), None)
    if words is None:
        return None
    up, down = int(words[2]), int(words[3])
    into = ((time.monotonic_ns() - note["loaded_ns"]) / 1e9) % (up + down)
    is_up = into < up
    left = up - into if is_up else up + down - into
    return {"now": "up" if is_up else "down", "left_s": round(left, 1), "up_s": up, "down_s": down}


def _errors(device: str) -> int:
    """Errors that ext4 has met on it so far. With `errors=remount-ro` one is enough to end all writing to it, though
    Linux 6.1.y goes on to show it as mounted `rw` (ext4_handle_error)."""
    text = (common.read_text(f"/sys/fs/ext4/{os.path.basename(dm.node(device))}/errors_count") or "").strip()
    return int(text) if text.isdigit() else 0


def _mend(device: str, errors: int) -> str:
    """Only a mount anew ends what ext4 does when its journal or its metadata met an error."""
    if _errors(device) <= errors:
        return ""
    if found := openers.below(volume.point_of(device)):
        return f"ext4 has given up and takes no writes while it is in use by {openers.sentence(found)}"
    volume.mend(device.removeprefix(volume.PREFIX))
    return "ext4 had given up; it was unmounted, checked and mounted anew"


def main(argv: list[str]) -> int:
    """`block act|change|heal|show`."""
    return common.serve("block", {"act": act, "change": change, "heal": heal, "show": show}, argv)
