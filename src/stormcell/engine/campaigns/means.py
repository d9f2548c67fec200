"""What this host has for one more run: memory, disk, processors, within the limits of our own cgroup."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from stormcell.sandbox import admission

MIB = 1 << 20
MEMORY_KEPT = 256 * MIB
"""Left for the host and for ourselves."""
DISK_KEPT = 256 * MIB


@dataclass(frozen=True)
class Means:
    """In bytes. `total` is what could be had at the very best."""

    memory: int
    memory_total: int
    disk: int
    disk_total: int


@dataclass(frozen=True)
class Need:
    """What one run is thought to come to use, in bytes."""

    memory: int
    disk: int = admission.DISK_OF_ONE


@dataclass(frozen=True)
class Answer:
    """`go`; `wait`: it may fit later; `never`: not on this host. `why` for people."""

    decision: Literal["go", "wait", "never"]
    why: str = ""


def decide(need: Need, promised: Need, means: Means) -> Answer:
    """Whether one more run may begin. `promised` is what runs under way may still come to use beyond what they have."""
    for what, wanted, owed, there, total, kept in (
        ("memory", need.memory, promised.memory, means.memory, means.memory_total, MEMORY_KEPT),
        ("disk", need.disk, promised.disk, means.disk, means.disk_total, DISK_KEPT),
    ):
        if wanted + kept > total:
            why = f"a run needs about {wanted // MIB} MiB of {what}, and there are {max(0, total - kept) // MIB} in all"
            return Answer("never", why)
        if wanted + owed + kept > there:
            still = f", of which {owed // MIB} are promised to runs under way" if owed else ""
            why = f"for {what}: a run needs about {wanted // MIB} MiB, {max(0, there - kept) // MIB} are free{still}"
            return Answer("wait", why)
    return Answer("go")


def look(folder: Path) -> Means:
    """Now. `folder` is where the sandboxes' disks go."""
    info = os.statvfs(folder)
    memory, total = admission.memory_available(), _memory_total()
    for limit, free in _cgroup_memory(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")):
        memory, total = min(memory, free), min(total, limit)
    return Means(memory, total, info.f_bavail * info.f_frsize, info.f_blocks * info.f_frsize)


def processors() -> int:
    """That this process may use, by its affinity and its cgroup's quota (rounded up)."""
    count = len(os.sched_getaffinity(0))
    for group in _groups(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"), "cpu"):
        quota = _quota(group)
        if quota:
            count = min(count, max(1, -int(-quota // 1)))
    return count


def _memory_total() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return 0


def _cgroup_memory(membership: Path, mount: Path) -> Iterator[tuple[int, int]]:
    """The limit of each cgroup that we are in, and what it has left; file pages that are not in use count as left."""
    for group in _groups(membership, mount, "memory"):
        limit = _number(group / "memory.max") or _number(group / "memory.limit_in_bytes")
        used = _number(group / "memory.current") or _number(group / "memory.usage_in_bytes")
        if limit and used is not None and limit < 1 << 60:
            cached = _stat(group / "memory.stat", ("total_inactive_file", "inactive_file"))
            yield limit, max(0, limit - used + cached)


def _groups(membership: Path, mount: Path, controller: str) -> Iterator[Path]:
    """Our cgroup and its parents, in the hierarchy (v1 or v2) that has the controller."""
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if controller in controllers.split(","):
            root = mount / controller
        elif number == "0" and not controllers:
            root = mount
        else:
            continue
        group = root / path.lstrip("/")
        while True:
            yield group  # inside a container the path may not be there: then its root is our own group
            if group == root:
                break
            group = group.parent


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # `max`: no limit
        return None


def _quota(group: Path) -> float | None:
    try:
        quota, period = (group / "cpu.max").read_text().split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        old, per = _number(group / "cpu.cfs_quota_us"), _number(group / "cpu.cfs_period_us")
        return old / per if old and per and old > 0 else None


def _stat(path: Path, keys: tuple[str, ...]) -> int:
    try:
        found = dict(line.split(" ", 1) for line in path.read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return next((int(found[key]) for key in keys if key in found), 0)
