"""`syscall.delay`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults._bpf import NEEDS, schema, target_words
from stormcell.faults._delay import Delays, explained
from stormcell.faults._fields import GuestPath
from stormcell.faults._traced import Traced
from stormcell.guest.tools.bpf.delays import GROUPS, NUMBER
from stormcell.spec.fault import Command

ALL = tuple(group.name for group in GROUPS)


class SyscallDelay(Delays, Traced):
    """System calls of a service or of some processes take longer; all else of them runs at full speed.

    A program in the kernel chooses the calls, and raises SIGURG for the thread at their end; a tracer of ours is told
    of the signal before the thread (ptrace), holds that thread alone for the time, and takes the signal away. Whom it
    meets is said as in syscall.errno.
    """

    kind = "syscall.delay"
    needs = NEEDS
    counts = "system calls whose thread was held for the delay"
    proves = "calls that the program in the kernel chose, by process; threads that the kernel stopped for the tracer"
    example: ClassVar[dict[str, Any]] = {
        "kind": "syscall.delay", "service": "postgresql", "call": "fsync", "delay": "200ms",
    }  # fmt: skip

    call: Annotated[tuple[str, ...], *schema(ALL)] = Field(description=explained(ALL))
    path: GuestPath | None = None
    """Only calls on this file, or on all below this folder, as in syscall.errno; for read, write, open, fsync, readdir,
    truncate and lock."""

    @model_validator(mode="after")
    def _path_of_files(self) -> SyscallDelay:
        if self.path and (other := [name for name in self.call if not GROUPS[NUMBER[name]].about_files]):
            raise ValueError(f"'path' cannot be told of {', '.join(other)}; write two faults")
        return self

    def groups(self) -> tuple[str, ...]:
        """As asked."""
        return self.call

    def by(self) -> str:
        """How the target is found."""
        return self.target[0]

    def words(self) -> tuple[str, ...]:
        """Whom, which calls, on what."""
        return (*target_words(self), f"call={','.join(self.call)}", *([f"path={self.path}"] if self.path else []))

    def change(self, to: SyscallDelay) -> tuple[Command, ...] | None:
        """Delay, jitter, rate, every and limit."""
        return self.change_delays(to)
