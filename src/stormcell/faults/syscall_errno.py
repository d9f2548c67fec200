"""`syscall.errno`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults._bpf import NEEDS, Errnos, calls, explained, hooks, schema, target_words
from stormcell.faults._fields import Addresses, GuestPath, Port
from stormcell.faults._target import Target
from stormcell.guest.tools.bpf.calls import CALLS, NUMBER, PEER
from stormcell.spec.fault import Command

NETS = 8


class SyscallErrno(Errnos, Target):
    """System calls of a service or of some processes come back with an errno.

    A program in the kernel's own security hook decides (BPF LSM), so every variant of a call is met, whichever the
    C library uses, and a static or 32-bit program as well. A service or cgroup is met with all that are in it and
    below it, now and later; another user than root with all processes that have it as their effective user, probes
    and loads among them; processes by name, pid or port, and those of root, are found at the act, and their
    children from then on belong to them (by `processes: main` only that one). Never the agent of the sandbox. With
    several such faults the first that refuses decides.
    """

    kind = "syscall.errno"
    needs = NEEDS
    counts = "system calls that were answered with the errno"
    proves = "the program's own count in the kernel, by process, group of calls and errno, of what it answered"
    example: ClassVar[dict[str, Any]] = {
        "kind": "syscall.errno", "service": "postgresql", "call": "open", "errno": "EMFILE", "rate": "20%",
    }  # fmt: skip

    call: Annotated[tuple[str, ...], *schema(tuple(NUMBER))] = Field(description=explained(CALLS))
    path: GuestPath | None = None
    """Only calls on this file, under whichever name of it, or on whatever has that name when it is used; of a folder,
    only on it and all below it, with the file systems that are mounted there at the act. Found by inode, so a relative
    path, a descriptor or a symbolic link makes no difference."""
    address: Addresses = ()
    """Only calls on sockets with a peer in these. At most 8."""
    remote_port: Port | None = None
    """Only calls on sockets with this port at the peer."""
    local_port: Port | None = None
    """Only calls on sockets with this port at this end: where a server listens."""

    @model_validator(mode="after")
    def _filters(self) -> SyscallErrno:
        files = {call.name for call in calls("file")}
        peers = {call.name for call in calls("peer")}
        if self.path and (other := [name for name in self.call if name not in files]):
            raise ValueError(f"'path' is about files, and {', '.join(other)} is not; write two faults")
        about_peers = self.address or self.remote_port or self.local_port
        if about_peers and (other := [name for name in self.call if name not in peers]):
            raise ValueError(f"addresses and ports are of sockets; {', '.join(other)} has none; write two faults")
        if len(self.address) > NETS:
            raise ValueError(f"{len(self.address)} addresses are given; at most {NETS} are compared")
        return self

    def words(self) -> tuple[str, ...]:
        """Whom, which calls, on what."""
        given = {
            "call": ",".join(self.call),
            "path": self.path,
            "address": ",".join(self.address),
            "remote-port": self.remote_port,
            "local-port": self.local_port,
        }
        return (*target_words(self), *(f"{key}={value}" for key, value in given.items() if value))

    def programs(self) -> set[str]:
        """A hook or two for each group."""
        return hooks(self.call, self.target[0])

    def change(self, to: SyscallErrno) -> tuple[Command, ...] | None:
        """Errno, rate, every and limit."""
        return self.change_amounts(to)

    def cannot_know(self) -> tuple[str, ...]:
        """What each group does not cover."""
        said = ["the answer comes before the kernel does anything: a call that fails half-way is not shown"]
        if self.errno in ("ESTALE", "ECHILD") and {"open", "stat", "rename"} & set(self.call):
            said.append(f"the kernel tries a path anew after {self.errno}, so one call can count twice")
        if any(CALLS[NUMBER[name]].about == PEER for name in self.call) and self.address:
            said.append("a socket without a peer (not connected, nothing said to whom) is not met by an address")
        return tuple(said)
