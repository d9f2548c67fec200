"""`port.ephemeral`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from stormcell.faults._ports import READ_RESERVED, TRACEPOINT, TakenPorts
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs


class PortEphemeral(TakenPorts):
    """No local port is left from which a connection could be made: connect answers EADDRNOTAVAIL, for UDP EAGAIN."""

    kind = "port.ephemeral"
    needs = Needs(programs=("cat",), paths=(TRACEPOINT,))
    counts = "connects of other processes that were refused for want of a local port"
    proves = "a histogram of sys_exit by process, call and errno, and the list of reserved ports as the kernel shows it"
    example: ClassVar[dict[str, Any]] = {"kind": "port.ephemeral"}

    leave: Annotated[int, Field(strict=True, ge=0, le=20_000)] = 0
    """How many ports are left. Each can hold one connection to every peer, as ever."""

    @property
    def left(self) -> int:
        """So many."""
        return self.leave

    def plan(self) -> Act:
        """The list as it was is put back."""
        return Act(
            apply=(Command(argv=(GUEST, "ports", "reserve", self.id, str(self.leave))),),
            undo=(Command(argv=(GUEST, "ports", "restore", self.id, "{before:reserved}")),),
            read=(READ_RESERVED, Command(argv=(GUEST, "ports", "show", self.id), name="ports")),
        )

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """Another number, in place."""
        if not isinstance(to, PortEphemeral):
            return None
        return (Command(argv=(GUEST, "ports", "change", self.id, str(to.leave))),)

    def cannot_know(self) -> tuple[str, ...]:
        """Who needs no such port."""
        return (
            "sockets that have a port keep it, and one that is named in a bind is still given: only ports that the "
            "kernel chooses are used up",
            "a UDP socket that sends without a connect is refused with EAGAIN too, which is not counted: it also means "
            "a full buffer",
        )
