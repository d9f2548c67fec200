"""`memory.oom`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._oom import OomKill
from stormcell.faults._reading import mapping
from stormcell.faults.memory_limit import MemoryLimit
from stormcell.spec.fault import Fault, Needs, Reading
from stormcell.spec.units import Size, size_text


class MemoryOom(OomKill):
    """The group of a service runs out of memory, and the kernel kills the victim that was asked for.

    The group gets a limit a little above what it uses (never above the one that it has), and a process of ours in it
    takes the rest. The limit stays until the undo.
    """

    kind = "memory.oom"
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers", "/dev/kmsg"))
    counts = "processes that the kernel killed for memory in that group and that are the victim asked for"
    proves = "the victim's pid in the kernel log, with the group as the one out of memory"
    example: ClassVar[dict[str, Any]] = {"kind": "memory.oom", "service": "postgresql", "victim": "target"}

    room: Size = 16 << 20
    """What the group may use more than it does at the act: 4MiB to 1GiB."""

    @model_validator(mode="after")
    def _sensible(self) -> MemoryOom:
        if not 4 << 20 <= self.room <= 1 << 30:
            raise ValueError(f"a room of {size_text(self.room)} is out of range; it is between 4MiB and 1GiB")
        return self

    @property
    def moves(self) -> bool:
        """Who is no group."""
        return self.folder is None

    def conflicts(self, other: Fault) -> str | None:
        """Both set the limit of the group."""
        if (why := self.moved_twice(other)) is not None:
            return why
        if isinstance(other, MemoryLimit) and other.max is not None and self.same_target(other):
            return "both write memory.max of the same group"
        return super().conflicts(other)

    def work(self) -> tuple[str, ...]:
        """Bytes."""
        return ("in-group", str(self.room))

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Also the limit stands as it was written."""
        shown = mapping(during, "oom")
        files, limit = shown.get("files"), shown.get("limit")
        text = files.get("memory.max") if isinstance(files, dict) else None
        return super().in_force(before, during) and isinstance(text, str) and text.strip() == str(limit)
