"""Find the processes that a fault means.

Never init, and nothing of ours: the agent, a run with its tools, probes and watchdog, what other faults hold. A load of
the run is meant when it is found by name, pid or port, or has moved into the cgroup that is meant; not by its user.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator

from stormcell.guest import nodes
from stormcell.guest.tools import processes
from stormcell.guest.tools.processes import Process

CRASH = "to crash the machine there is machine.crash"
_LISTENS = "0A"
_SOCKETS = ("tcp", "tcp6", "udp", "udp6")


def find(by: str, what: str) -> list[Process]:
    """`by` is service, main, name, pid, cgroup, user or port; or none, which nobody is found by.

    Raises ValueError for a process of the control path that was asked for by pid. Nobody found: an empty list.
    """
    if by == "none":
        return []
    if by == "pid":
        process = processes.look(int(what))
        if process is not None and processes.of_kernel(process):
            raise ValueError(f"process {what} ({process.comm}) is a thread of the kernel, which no fault means")
        if process is not None and (process.pid == 1 or processes.is_ours(process)):
            whose = "init" if process.pid == 1 else "the agent" if processes.is_agent(process.pid) else "a part"
            raise ValueError(f"process {what} is {whose} of this sandbox, which has to survive the fault; {CRASH}")
        if process is not None and not processes.is_meant(process):
            raise ValueError(f"process {what} ({process.comm}) is not in the node '{nodes.current()}'")
        return [process] if process is not None else []
    if by in ("service", "main"):
        try:
            return [p for p in processes.of_service(what, by == "main") if not processes.is_ours(p)]
        except FileNotFoundError:
            return []
    if by == "cgroup":
        return _spare(processes.of_cgroup(what))
    if by == "name":
        return processes.named(what)
    if by == "user":
        uid = _uid(what)
        return _spare(p for p in processes.everyone() if _owner(p.pid) == uid and not processes.is_load(p))
    if by == "port":
        inodes = _bound_to(int(what))
        return _spare(p for p in processes.everyone() if inodes & _sockets_of(p.pid))
    raise ValueError(f"processes are not found by '{by}'")


def _spare(found: Iterator[Process] | list[Process]) -> list[Process]:
    spared = {1, *processes.ancestors()}
    return [p for p in found if p.pid not in spared and not processes.is_ours(p) and processes.is_meant(p)]


def _uid(user: str) -> int:
    if user.isdigit():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise LookupError(f"there is no user '{user}'") from None


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _bound_to(port: int) -> set[str]:
    """Inodes of the sockets that listen on (TCP) or are bound to (UDP) a local port: proc(5), /proc/net/tcp."""
    found: set[str] = set()
    for table in _SOCKETS:
        try:
            with open(f"/proc/net/{table}", encoding="ascii") as file:
                rows = [line.split() for line in file.readlines()[1:]]
        except FileNotFoundError:
            continue
        found |= {
            row[9]
            for row in rows
            if int(row[1].rpartition(":")[2], 16) == port and (table.startswith("udp") or row[3] == _LISTENS)
        }
    return found


def _sockets_of(pid: int) -> set[str]:
    found: set[str] = set()
    try:
        for fd in os.scandir(f"/proc/{pid}/fd"):
            link = os.readlink(fd.path)
            if link.startswith("socket:["):
                found.add(link[8:-1])
    except OSError:  # it ended meanwhile
        pass
    return found
