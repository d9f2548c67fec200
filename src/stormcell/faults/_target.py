"""Whom a fault on processes means."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field, model_validator

from stormcell.faults._fields import GuestPath, Placed, Port, ServiceName, UserName, one_of
from stormcell.faults._reading import mappings
from stormcell.spec.fault import Fault

ROOT = "/sys/fs/cgroup"
_NAMED = 8


def _not_ours(path: str) -> str:
    inside = path.removeprefix(ROOT)
    if not path.startswith(f"{ROOT}/") or inside == "/":
        raise ValueError(f"'{path}' is no cgroup below {ROOT}; write for example {ROOT}/services/web")
    if inside.split("/")[1] == "stormcell":
        raise ValueError(f"'{path}' belongs to the agent of the sandbox, which has to survive the fault")
    return path


Cgroup = Annotated[GuestPath, AfterValidator(_not_ours)]
"""The folder of a cgroup, but those of the control path."""


def _no_path(name: str) -> str:
    if not name or "/" in name or "\0" in name or not name.isprintable() or name.startswith("-"):
        raise ValueError(f"'{name}' is no name of a program; write its command name, for example redis-server")
    return name


ProcessName = Annotated[str, AfterValidator(_no_path)]
"""A command name."""


def _no_init(pid: int) -> int:
    if pid == 1:
        raise ValueError("process 1 is the guest's init, which keeps the agent alive; to crash the machine there is "
                         "machine.crash")  # fmt: skip
    return pid


Pid = Annotated[int, Field(strict=True, ge=1, le=4_194_304), AfterValidator(_no_init)]
"""A process, but init."""


class Target(Placed):
    """The part of a fault that says which processes it means; found at the act, by pid and start time."""

    needs_target: ClassVar[bool] = True
    """False: without one, the fault is about the whole guest."""

    service: ServiceName | None = None
    """A service of the template, or of the node. One of `service`, `name`, `pid`, `cgroup`, `user` and `port`; for a
    node none of them means all its processes."""
    processes: Literal["all", "main"] = "all"
    """Of a service: all its processes, or only the main one."""
    name: ProcessName | None = None
    """Every process with this command name, or this base name of its argv[0]; a load of the experiment as well. Never
    init, the agent, or the run's own processes (runner, probes, watchdog, what faults hold)."""
    pid: Pid | None = None
    """This process. Not init, the agent, or anything else of ours: that is refused, at the act at the latest."""
    cgroup: Cgroup | None = None
    """Every process in this cgroup and in those below it."""
    user: UserName | None = None
    """Every process of this user. Never init, the agent, the run's own processes, or loads of the experiment."""
    port: Port | None = None
    """Every process that listens on this TCP port or is bound to this UDP port; a load as well."""

    @model_validator(mode="after")
    def _one_target(self) -> Target:
        given = {"service": self.service, "name": self.name, "pid": self.pid}
        given |= {"cgroup": self.cgroup, "user": self.user, "port": self.port}
        if self.node is not None and self.cgroup is not None:
            raise ValueError("a node has a cgroup of its own; write one of 'node' and 'cgroup'")
        if (self.needs_target and self.node is None) or any(value is not None for value in given.values()):
            one_of(**given)
        if self.processes == "main" and self.service is None:
            raise ValueError("'processes: main' is about a service; name one")
        return self

    @property
    def target(self) -> tuple[str, str]:
        """How the processes are found and which, as the guest's tools take it (guest/tools/targets.py)."""
        if self.service is not None:
            return ("main" if self.processes == "main" else "service", self.service)
        by = {"name": self.name, "pid": self.pid, "cgroup": self.cgroup, "user": self.user, "port": self.port}
        if self.node is not None and all(value is None for value in by.values()):
            return ("cgroup", f"{ROOT}/nodes/{self.node}")
        return next(((key, str(value)) for key, value in by.items() if value is not None), ("none", ""))

    @property
    def folder(self) -> str | None:
        """The cgroup of a target that is one, None for processes that are found in other ways."""
        by, what = self.target
        if by == "service":
            return f"{ROOT}/services/{what}" if self.node is None else f"{ROOT}/nodes/{self.node}/{what}"
        return what if by == "cgroup" else None

    @property
    def moves(self) -> bool:
        """Does it move the processes to a group of its own for the fault?"""
        return False

    def moved_twice(self, other: Fault) -> str | None:
        """Why two that move processes cannot be together."""
        apart = isinstance(other, Target) and None not in (self.node, other.node) and self.node != other.node
        if isinstance(other, Target) and self.moves and other.moves and not apart:
            return "each moves its processes to a group of its own, and a process is in one; name a service or a cgroup"
        return None

    def same_target(self, other: Target) -> bool:
        """Do both name the same processes? A service and its cgroup are the same."""
        if self.folder is not None or other.folder is not None:
            return self.folder == other.folder
        return self.target == other.target and self.node == other.node


def listed(processes: Any) -> list[dict[str, Any]]:
    """The processes in a list that a guest wrote; what has no pid and start time is none."""
    return [
        process
        for process in mappings(processes)
        if isinstance(process.get("pid"), int) and isinstance(process.get("start_time"), int)
    ]


def pid_of(item: dict[str, Any]) -> int | None:
    """Of anything that a guest wrote about a process."""
    pid = item.get("pid")
    return pid if isinstance(pid, int) else None


def who(process: dict[str, Any]) -> str:
    """A process for a sentence."""
    return f"{process.get('pid')} ({process.get('comm')})"


def restarts(then: Any, now: Any, *, covered: bool) -> tuple[str, ...]:
    """What became of the targets since the act, from two lists of processes with pid and start time.

    `covered` says that the fault is in force for a newcomer too.
    """
    known = {(p.get("pid"), p.get("start_time")): p for p in listed(then)}
    found = {(p.get("pid"), p.get("start_time")): p for p in listed(now)}
    gone = [who(process) for key, process in known.items() if key not in found]
    new = [who(process) for key, process in found.items() if key not in known]
    if not gone or not new:
        return ()
    how = "the fault is in force for it too" if covered else "the fault is not in force for it"
    return (f"target_restarted: {_few(gone)} ended, {_few(new)} came instead: {how}",)


def _few(items: list[str]) -> str:
    rest = len(items) - _NAMED
    return ", ".join(items[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")
