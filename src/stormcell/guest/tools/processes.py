"""What /proc says about processes. A process is named by (pid, start time); a pid alone can be somebody else's."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from stormcell.guest import nodes

SERVICES = "/sys/fs/cgroup/services"
STATUS = "/run/stormcell/services.json"
_CGROUPS = "/sys/fs/cgroup"
_IN_NODE = re.compile(rf"{nodes.CGROUPS.removeprefix(_CGROUPS)}/[^/]+/{nodes.COMMANDS}/([a-z]+)-")
CONTROL_PATH = "/stormcell"
RUNS = f"{CONTROL_PATH}/exec/"
GUEST_FILE = "/run/stormcell/guest.pyz"
"""An argument of whatever is forked from init: agent, runner, watchdog, tools, probes, holders."""


@dataclass(frozen=True)
class Process:
    """`start_time` in clock ticks since boot, field 22 of /proc/PID/stat."""

    pid: int
    start_time: int
    comm: str
    state: str = ""
    parent: int = 0

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {key: value for key, value in asdict(self).items() if key in ("pid", "start_time", "comm")}


def look(pid: int) -> Process | None:
    """The process, None when there is none. A zombie counts as gone: it runs no more."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    comm = text[text.index("(") + 1 : text.rindex(")")]
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else Process(pid, int(fields[19]), comm, fields[0], int(fields[1]))


def everyone() -> Iterator[Process]:
    """All processes, without kernel threads."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (process := look(int(name))) is not None and not of_kernel(process):
            yield process


def of_comms(names: Collection[str]) -> list[Process]:
    """The processes whose command has one of these names (no kernel threads); of the others only that is read."""
    wanted = {f"{name}\n".encode() for name in names}
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fd = os.open(f"/proc/{name}/comm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            alike = os.read(fd, 64) in wanted
        except OSError:
            alike = False
        finally:
            os.close(fd)
        if alike and (process := look(int(name))) is not None and 2 not in (process.pid, process.parent):
            found.append(process)
    return found


def of_service(name: str, only_main: bool) -> list[Process]:
    """The processes in a service's cgroup, or its main process alone."""
    if only_main:
        with open(STATUS, encoding="utf-8") as file:
            state = json.load(file).get(nodes.service_key(name, nodes.current())) or {}
        process = look(state["pid"]) if state.get("pid") else None
        return [process] if process is not None and process.start_time == state.get("start_time") else []
    return of_cgroup(service_folder(name))


def service_folder(name: str) -> str:
    """The cgroup of a service: of the node in which we were started, or of the machine."""
    node = nodes.current()
    return f"{SERVICES}/{name}" if node is None else f"{nodes.cgroup(node)}/{name}"


def is_meant(process: Process) -> bool:
    """Is it in the node in which we were started? In none, everybody is."""
    node = nodes.current()
    return node is None or f"{_place(process.pid)}/".startswith(f"{nodes.cgroup(node).removeprefix(_CGROUPS)}/")


def of_cgroup(path: str) -> list[Process]:
    """The processes in a cgroup and below it."""
    pids: list[int] = []
    for folder, _, _ in os.walk(path):
        with open(f"{folder}/cgroup.procs", encoding="utf-8") as file:
            pids += [int(line) for line in file]
    return [process for process in map(look, pids) if process is not None]


def named(name: str) -> list[Process]:
    """By command name, or by the base name of argv[0]; never init, our agent or the callers of this program."""
    spared = {1, *ancestors()}
    found = [p for p in everyone() if name == p.comm or name == os.path.basename(_argv(p.pid)[0])]
    return [p for p in found if p.pid not in spared and not is_ours(p) and is_meant(p)]


def ancestors() -> set[int]:
    """This process and all above it."""
    found: set[int] = set()
    pid = os.getpid()
    while pid and pid not in found:
        found.add(pid)
        process = look(pid)
        pid = process.parent if process else 0
    return found


def is_agent(pid: int) -> bool:
    """Does it belong to the control path: the agent, the watchdog, helpers? Commands that they run do not."""
    return _controls(_place(pid))


def is_ours(process: Process) -> bool:
    """Is it of the control path, of a run (the runner, its tools and probes), or a holder of a fault (holders.py)?

    No fault means these.
    """
    place = _place(process.pid)
    folder = os.path.basename(place)
    holder = folder.startswith("stormcell-") or (place.startswith("/stormcell-targets/") and process.comm[:3] == "sc-")
    return _controls(place) or holder or _part(place) == "probe" or GUEST_FILE in _argv(process.pid)


def is_load(process: Process) -> bool:
    """Is it a load of a run?"""
    return _part(_place(process.pid)) == "load"


def of_kernel(process: Process) -> bool:
    """Is it a thread of the kernel?"""
    return 2 in (process.pid, process.parent)


def _part(place: str) -> str:
    """What a run started it as (trees.py): the runner's group lies below that of the agent's commands."""
    if (in_node := _IN_NODE.match(place)) is not None:
        return in_node[1]
    folders = place.removeprefix(RUNS).split("/")
    return folders[1].partition("-")[0] if place.startswith(RUNS) and len(folders) > 1 else ""


def _place(pid: int) -> str:
    return _text(f"/proc/{pid}/cgroup").strip().rpartition("::")[2]


def _controls(place: str) -> bool:
    return place.startswith(f"{CONTROL_PATH}/") and not place.startswith(f"{CONTROL_PATH}/exec/")


def _argv(pid: int) -> list[str]:
    return _text(f"/proc/{pid}/cmdline").split("\0")


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
