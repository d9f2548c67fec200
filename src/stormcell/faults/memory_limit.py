"""`memory.limit`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._cgroup import CgroupLimit
from stormcell.faults._reading import mapping, texts
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import Size, size_text

PAGE = 4096


class MemoryLimit(CgroupLimit):
    """A service gets no more memory than this; past it the kernel reclaims, stalls, and at last kills."""

    kind = "memory.limit"
    file = "memory.max"
    counters = "memory.events"
    shown = ("memory.current", "memory.peak", "memory.pressure")
    needs = Needs(programs=("cat",), paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "times the limit was hit, and processes killed for it"
    proves = "max and oom_kill in memory.events of that cgroup, counted from just before the limit was set"
    example: ClassVar[dict[str, Any]] = {"kind": "memory.limit", "service": "postgresql", "max": "64MiB"}

    max: Size
    """memory.max: page cache counts too. At least 1MiB."""

    @model_validator(mode="after")
    def _sensible(self) -> MemoryLimit:
        if self.max < 1 << 20:
            raise ValueError(f"a limit of {size_text(self.max)} is out of range; it is at least 1MiB")
        return self

    def value(self) -> str:
        """Bytes."""
        return str(self.max)

    def expected(self) -> str:
        """The kernel rounds down to whole pages (page_counter_memparse)."""
        return str(self.max // PAGE * PAGE)

    def acted(self, during: Reading, after: Reading) -> int:
        """Counted from just before the write of the limit, which itself can kill.

        `oom` is no measure: lowering memory.max counts it in a loop until the victim is gone (memory_max_write).
        """
        events = self.counted(after)
        return events.get("max", 0) + events.get("oom_kill", 0)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Amounts, and the victims by the kernel's own log."""
        if after is None:
            return ()
        events = self.counted(after)
        earlier = texts(mapping(before, "cgroup").get("oom"))
        killed = [line for line in texts(mapping(after, "cgroup").get("oom")) if line not in earlier]
        counted = ", ".join(f"{key} {events[key]}" for key in ("max", "oom", "oom_kill") if key in events)
        peak = self.shown_file(after, "memory.peak")
        said = [f"memory.events: {counted}"] if counted else []
        said += [f"memory.peak since the group began: {size_text(int(peak) // 1024 * 1024)}"] if peak.isdigit() else []
        return (*said, *(f"kernel log: {line}" for line in killed))

    def cannot_know(self) -> tuple[str, ...]:
        """Who dies."""
        return ("the kernel chooses whom it kills in the group: mostly the largest process, not the one that asked",)
