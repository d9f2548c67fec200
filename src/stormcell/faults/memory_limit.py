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
    """A service gets no more memory than this; past it the kernel reclaims, stalls, and at last kills.

    Past `high` it is slowed and reclaimed from, never killed; past `max` it is killed when nothing can be reclaimed.
    """

    kind = "memory.limit"
    counters = "memory.events"
    shown = ("memory.current", "memory.peak", "memory.pressure")
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "times a limit was hit, and processes killed for it"
    proves = "max, high and oom_kill in memory.events of that cgroup, counted from just before the limit was set"
    example: ClassVar[dict[str, Any]] = {"kind": "memory.limit", "service": "postgresql", "max": "64MiB"}

    max: Size | None = None
    """memory.max: page cache counts too. At least 1MiB. This or `high` or both."""
    high: Size | None = None
    """memory.high: past it processes are made to wait while the kernel reclaims. At least 1MiB, below `max`."""

    @model_validator(mode="after")
    def _sensible(self) -> MemoryLimit:
        if self.max is None and self.high is None:
            raise ValueError("'max' or 'high' is needed; neither is given")
        for limit in (self.max, self.high):
            if limit is not None and limit < 1 << 20:
                raise ValueError(f"a limit of {size_text(limit)} is out of range; it is at least 1MiB")
        if self.max is not None and self.high is not None and self.high >= self.max:
            raise ValueError(f"'high' ({size_text(self.high)}) is never reached when 'max' is {size_text(self.max)}")
        return self

    def values(self) -> dict[str, str]:
        """Bytes."""
        limits = {"memory.high": self.high, "memory.max": self.max}
        return {name: str(limit) for name, limit in limits.items() if limit is not None}

    def expected(self, name: str, basis: dict[str, Any]) -> str:
        """The kernel rounds down to whole pages (page_counter_memparse)."""
        return str(int(self.values()[name]) // PAGE * PAGE)

    def acted(self, during: Reading, after: Reading) -> int:
        """Counted from just before the write of the limit, which itself can kill.

        `oom` is no measure: lowering memory.max counts it in a loop until the victim is gone (memory_max_write).
        """
        events = self.counted(after)
        hit = (events.get("max", 0) if self.max is not None else 0) + events.get("oom_kill", 0)
        return hit + (events.get("high", 0) if self.high is not None else 0)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Amounts, and the victims by the kernel's own log."""
        if after is None:
            return ()
        events = self.counted(after)
        counted = ", ".join(f"{key} {events[key]}" for key in ("high", "max", "oom", "oom_kill") if key in events)
        peak = self.shown_file(after, "memory.peak")
        said = [f"memory.events: {counted}"] if counted else []
        said += [f"memory.peak since the group began: {size_text(int(peak) // 1024 * 1024)}"] if peak.isdigit() else []
        said += [f"kernel log: {line}" for line in texts(mapping(after, "cgroup").get("oom"))]
        return (*said, *super().notes(before, during, after))

    def cannot_know(self) -> tuple[str, ...]:
        """Who dies."""
        dies = "the kernel chooses whom it kills in the group: mostly the largest process, not the one that asked"
        return (*((dies,) if self.max is not None else ()), *super().cannot_know())
