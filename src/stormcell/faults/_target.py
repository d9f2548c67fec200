"""Whom a fault on processes means."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from stormcell.faults._cgroup import Cgroup
from stormcell.faults._fields import Documented, Port, ServiceName, UserName, one_of


def _no_path(name: str) -> str:
    if not name or "/" in name or "\0" in name or not name.isprintable() or name.startswith("-"):
        raise ValueError(f"'{name}' is no name of a program; write its command name, for example redis-server")
    return name


ProcessName = Annotated[str, AfterValidator(_no_path)]
"""A command name."""

Pid = Annotated[int, Field(strict=True, ge=1, le=4_194_304)]
"""A process."""


class Target(Documented):
    """The part of a fault that says which processes it means; found at the act, by pid and start time."""

    service: ServiceName | None = None
    """A service of the template. One of `service`, `name`, `pid`, `cgroup`, `user` and `port`."""
    processes: Literal["all", "main"] = "all"
    """Of a service: all its processes, or only the main one."""
    name: ProcessName | None = None
    """Every process with this command name, or this base name of its argv[0]. Never init or the agent."""
    pid: Pid | None = None
    """This process."""
    cgroup: Cgroup | None = None
    """Every process in this cgroup and in those below it."""
    user: UserName | None = None
    """Every process of this user. Never init or the agent."""
    port: Port | None = None
    """Every process that listens on this TCP port or is bound to this UDP port."""

    @model_validator(mode="after")
    def _one_target(self) -> Target:
        one_of(service=self.service, name=self.name, pid=self.pid, cgroup=self.cgroup, user=self.user, port=self.port)
        if self.processes == "main" and self.service is None:
            raise ValueError("'processes: main' is about a service; name one")
        return self

    @property
    def target(self) -> tuple[str, str]:
        """How the processes are found and which, as the guest's tools take it (guest/tools/targets.py)."""
        if self.service is not None:
            return ("main" if self.processes == "main" else "service", self.service)
        by = {"name": self.name, "pid": self.pid, "cgroup": self.cgroup, "user": self.user, "port": self.port}
        return next((key, str(value)) for key, value in by.items() if value is not None)
