"""The cgroup in which a target is, or one of ours that its processes are moved into and out of again.

A service or a cgroup is met where it is. Processes found by name, pid, user or port share their cgroup with bystanders,
so they alone are moved, by pid and start time, into a group of ours; the undo moves the survivors and their children
back to where they came from.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common, processes, targets
from stormcell.guest.tools.processes import Process

ROOT = "/sys/fs/cgroup"
OURS = f"{ROOT}/stormcell-targets"
"""Below the root and not below the agent's group: who is moved here competes as a service does."""
PASSIVE = f"{ROOT}/stormcell/faults"
"""Holders that only sit there."""
KEPT = ("cpu.max", "cpu.weight", "memory.max", "memory.high", "memory.swap.max", "pids.max")
"""Limits of the old group that are carried over to ours."""
_GONE_S = 2.0
_ROUNDS = 20
_LOOKS = 5


def in_place(by: str, what: str) -> str | None:
    """The folder of a service or a cgroup, None for processes that are found in other ways."""
    if by == "service":
        return processes.service_folder(what)
    return what if by == "cgroup" else None


def of(pid: int) -> str | None:
    """The folder of a process, None when it is gone."""
    text = common.read_text(f"/proc/{pid}/cgroup") or ""
    place = next((line[3:] for line in text.splitlines() if line.startswith("0::")), None)
    return None if place is None or place.endswith(" (deleted)") else f"{ROOT}{place}".rstrip("/")


def existing(by: str, what: str) -> str:
    """The folder of a target that is met in place. Raises LookupError when it is not there."""
    folder = in_place(by, what)
    if folder is None or not os.path.isdir(folder):
        raise LookupError(f"there is no cgroup {folder}")
    return folder


def victims(by: str, what: str) -> list[Process]:
    """The processes to be moved. Raises LookupError when there are none, or when one cannot be moved."""
    found = targets.find(by, what)
    if not found:
        raise LookupError(f"there is no process of {by} '{what}'")
    for process in found:
        folder = of(process.pid) or ""
        if folder.startswith(f"{OURS}/"):
            name = os.path.basename(folder).removesuffix(".aside")
            raise LookupError(f"process {process.pid} ({process.comm}) is already moved by the fault '{name}'")
    return found


def same(entry: Mapping[str, Any]) -> bool:
    """Is that very process still there?"""
    now = processes.look(int(entry["pid"]))
    return now is not None and now.start_time == entry["start_time"]


def make(folder: str) -> None:
    """A new group with every controller that its parent may give. Raises FileExistsError."""
    parent = os.path.dirname(folder)
    if parent in (OURS, PASSIVE) and not os.path.isdir(parent):
        os.mkdir(parent)
        controllers = (common.read_text(f"{parent}/cgroup.controllers") or "").split()
        write_file(f"{parent}/cgroup.subtree_control", " ".join(f"+{name}" for name in controllers))
    os.mkdir(folder)


def move_in(
    folder: str,
    found: Sequence[Process],
    find: Callable[[], Sequence[Process]],
    remember: Callable[[list[dict[str, Any]]], None],
) -> None:
    """Move `found` into a new `folder`; `remember` is told who comes from where before one is moved.

    Looks again by `find` until nobody is found elsewhere: one may fork while it is moved.
    """
    moved: list[dict[str, Any]] = []
    for _ in range(_LOOKS):
        homes = {process: of(process.pid) for process in (find() if moved else found)}
        new = [{**process.as_dict(), "from": home} for process, home in homes.items() if home and home != folder]
        if not new:
            return
        first = not moved
        moved += new
        remember(moved)
        if first:
            make(folder)
            old = {str(entry["from"]) for entry in moved}
            if len(old) == 1:
                _carry_over(old.pop(), folder)
        for entry in new:
            if same(entry):
                put(int(entry["pid"]), folder)


def move_out(folder: str, moved: Sequence[Mapping[str, Any]]) -> None:
    """Move everybody in `folder` back, children to where their parent came from, and remove it.

    Raises OSError when somebody stays.
    """
    if not os.path.isdir(folder):
        return
    homes = {entry["pid"]: str(entry["from"]) for entry in moved if same(entry)}
    usual = str(moved[0]["from"]) if moved else ROOT
    for _ in range(_ROUNDS):
        pids = members(folder)
        for pid in pids:
            put(pid, _still_there(_home(pid, homes, usual)))
        if not pids and remove(folder):
            return
    raise OSError(f"processes {members(folder)} are still in {folder}")


def put(pid: int, folder: str) -> None:
    """Into that cgroup; one that ended meanwhile is no error."""
    try:
        write_file(f"{folder}/cgroup.procs", str(pid))
    except ProcessLookupError:
        pass


def empty(folder: str, to: str) -> None:
    """Everybody in `folder` moves; also who is forked meanwhile."""
    for _ in range(_ROUNDS):
        pids = members(folder)
        if not pids:
            return
        for pid in pids:
            put(pid, to)


def members(folder: str) -> list[int]:
    """Pids in a group, not below it; empty when it is not there."""
    return [int(line) for line in (common.read_text(f"{folder}/cgroup.procs") or "").split()]


def end(folder: str) -> None:
    """Kill all in a group of ours by one write, see `populated 0`, remove it. Raises OSError when somebody is left.

    There need not be a group.
    """
    try:
        write_file(f"{folder}/cgroup.kill", "1")
    except FileNotFoundError:
        return
    deadline = time.monotonic() + _GONE_S
    while "populated 0" not in (common.read_text(f"{folder}/cgroup.events") or "populated 0"):
        if time.monotonic() > deadline:
            raise OSError(f"processes {members(folder)} in {folder} were killed and are still there")
        time.sleep(0.003)
    while not remove(folder):
        if time.monotonic() > deadline:
            raise OSError(f"{folder} is empty and cannot be removed")
        time.sleep(0.003)


def files(folder: str | None, names: Sequence[str]) -> dict[str, str | None]:
    """The files of a group by name, None where one is not there."""
    return {name: common.read_text(f"{folder}/{name}") if folder else None for name in names}


def remove(folder: str) -> bool:
    """An empty group of ours, and what it was in when nothing else is. False when it is not empty."""
    try:
        os.rmdir(folder)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    if os.path.dirname(folder) in (OURS, PASSIVE):
        try:
            os.rmdir(os.path.dirname(folder))
        except OSError:  # another fault's group is in it
            pass
    return True


def _carry_over(old: str, new: str) -> None:
    for name, text in files(old, KEPT).items():
        if text is not None and os.path.exists(f"{new}/{name}"):
            write_file(f"{new}/{name}", text.strip())


def _home(pid: int, homes: Mapping[int, str], usual: str) -> str:
    above: int | None = pid
    while above and above not in homes:
        process = processes.look(above)
        above = process.parent if process else None
    return homes.get(above or 0, usual)


def _still_there(folder: str) -> str:
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    return folder
