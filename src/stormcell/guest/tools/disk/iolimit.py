"""Limit the I/O of a cgroup on the device that really holds a path (io.max), and count what the kernel held back."""

from __future__ import annotations

import os
import time
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import claims, common, counters, groups, mounts, targets

QUEUED = "block/block_bio_queue"
HELD = "blk_throtl_dispatch_work_fn"
"""A request that blk-throttle held back is sent on by a worker from this function; others are sent by who made them."""
_NONE = "rbps=max wbps=max riops=max wiops=max"


def act(mark: str, path: str, limits: str, by: str, what: str) -> dict[str, Any]:
    """Write `limits` (`rbps=1048576 wiops=10`) for the device of `path`, and count what is held back from now on."""
    device = device_of(path)
    folder = groups.in_place(by, what)
    note: dict[str, Any] = {"path": path, "device": device, "limits": limits, "folder": folder, "moved": []}
    note["targets"] = [process.as_dict() for process in targets.find(by, what)]
    if folder is not None:
        groups.existing(by, what)
        keys = [limit.partition("=")[0] for limit in limits.split()]
        things = [f"io.max {os.path.realpath(folder)} {device} {key}" for key in keys]
        claims.take(mark, things, f"io.max of {folder} for {device}", "set")
        note["previous"] = _limits(folder, device) or _NONE
        common.put_mark(mark, note)
    else:
        folder = f"{groups.OURS}/{mark}"
        found = groups.victims(by, what)
        if os.path.isdir(folder):
            raise ValueError(f"{folder} is already there")
        note |= {"folder": folder, "made": True, "previous": None}
        common.put_mark(mark, note)

        def remember(moved: list[dict[str, Any]]) -> None:
            note["moved"] = moved
            common.put_mark(mark, note)

        groups.move_in(folder, found, lambda: targets.find(by, what), remember)
    if not os.path.exists(f"{folder}/io.max"):
        raise ValueError(f"the cgroup {folder} has no io.max: its parent does not give it that controller")
    major, _, minor = device.partition(":")
    condition = f'dev == {int(major) << 20 | int(minor)} && comm ~ "kworker/*"'
    counters.start(mark, QUEUED, "stacktrace", condition)
    note["at_act"] = {"stat": _stat(folder, device), "ns": time.monotonic_ns(), "pressure": _stalled(folder)}
    common.put_mark(mark, note)
    write_file(f"{folder}/io.max", f"{device} {limits}")
    return {"folder": folder, "device": device, "io.max": _limits(folder, device)}


def change(mark: str, limits: str) -> dict[str, Any]:
    """Other amounts."""
    note = common.get_mark(mark)
    if note is None:
        raise ValueError(f"the fault '{mark}' is not in force")
    write_file(f"{note['folder']}/io.max", f"{note['device']} {limits}")
    common.put_mark(mark, {**note, "limits": limits})
    return {"io.max": _limits(note["folder"], note["device"])}


def restore(mark: str) -> None:
    """Put the limits back, move back who was moved. May be said twice."""
    note = common.get_mark(mark)
    claims.drop(mark)
    if note is None:
        return
    if note.get("made"):
        groups.move_out(note["folder"], note["moved"])
    elif os.path.isdir(note["folder"]):
        write_file(f"{note['folder']}/io.max", f"{note['device']} {note['previous'] or _NONE}")
    counters.stop(mark, (QUEUED,))
    common.drop_mark(mark)


def show(mark: str, path: str, by: str, what: str) -> dict[str, Any]:
    """The limit as the kernel shows it, what it held back, what was read and written, who waited for it."""
    note = common.get_mark(mark)
    device = note["device"] if note else device_of(path)
    folder = note["folder"] if note else groups.in_place(by, what)
    held = counters.stacks(mark, QUEUED)
    memory = (common.read_text(f"{folder}/memory.stat") or "").splitlines() if folder else []
    pending = dict(line.split() for line in memory if line.startswith(("file_dirty ", "file_writeback ")))
    return {
        "folder": folder,
        "device": device,
        "limits": _limits(folder, device) if folder else None,
        "stat": _stat(folder, device) if folder else {},
        "pressure": _stalled(folder) if folder else None,
        "held": sum(hits for stack, hits in held if HELD in stack) if held is not None else None,
        "not_yet_written": {key: int(value) for key, value in pending.items()},
        "moved": [{**p, "in": groups.of(p["pid"])} for p in (note or {}).get("moved", []) if groups.same(p)],
        "targets": (note or {}).get("targets", []),
        "now": [process.as_dict() for process in targets.find(by, what)][:64],
        "ns": time.monotonic_ns(),
        "act": note,
    }


def device_of(path: str) -> str:
    """MAJOR:MINOR of the whole disk that holds `path`; io.max knows no partitions. Raises OSError, ValueError."""
    held = mounts.of(path)
    numbers = f"{os.major(held.dev)}:{os.minor(held.dev)}"
    place = f"/sys/dev/block/{numbers}"
    if not os.path.exists(place):
        raise ValueError(f"{path} is on {held.source} ({held.kind}), which is on no block device")
    if os.path.exists(f"{place}/partition"):
        numbers = (common.read_text(f"{os.path.realpath(place)}/../dev") or numbers).strip()
    return numbers


def _limits(folder: str, device: str) -> str | None:
    """Of this device, None when there are none."""
    for line in (common.read_text(f"{folder}/io.max") or "").splitlines():
        numbers, _, limits = line.partition(" ")
        if numbers == device:
            return limits.strip()
    return None


def _stat(folder: str, device: str) -> dict[str, int]:
    for line in (common.read_text(f"{folder}/io.stat") or "").splitlines():
        numbers, _, values = line.partition(" ")
        if numbers == device:
            pairs = (pair.partition("=") for pair in values.split())
            return {key: int(value) for key, _, value in pairs if value.isdigit()}
    return {}


def _stalled(folder: str) -> int | None:
    """Microseconds in which somebody of the group waited for I/O (`some` of io.pressure)."""
    text = common.read_text(f"{folder}/io.pressure") or ""
    total = text.partition("total=")[2].split("\n")[0]
    return int(total) if total.isdigit() else None


def main(argv: list[str]) -> int:
    """`iolimit act|change|restore|show`."""
    verbs: dict[str, common.Verb] = {"act": act, "change": change, "restore": restore, "show": show}
    return common.serve("iolimit", verbs, argv)
