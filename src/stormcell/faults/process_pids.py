"""`process.pids`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field, model_validator

from stormcell.faults._cgroup import CgroupLimit
from stormcell.faults._fields import one_of
from stormcell.spec.fault import Needs, Reading


class ProcessPids(CgroupLimit):
    """A service cannot start another process or thread: fork and clone answer EAGAIN."""

    kind = "process.pids"
    counters = "pids.events"
    shown = ("pids.current",)
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "processes and threads that the kernel refused to make"
    proves = "max in pids.events of that cgroup and those below it"
    example: ClassVar[dict[str, Any]] = {"kind": "process.pids", "service": "postgresql", "leave": 0}

    leave: Annotated[int, Field(strict=True, ge=0, le=4_194_304)] | None = None
    """How many more it may have than it has at the act. Either this or `max`."""
    max: Annotated[int, Field(strict=True, ge=0, le=4_194_304)] | None = None
    """pids.max: how many it may have in all. What is there already stays."""

    @model_validator(mode="after")
    def _one_amount(self) -> ProcessPids:
        one_of(leave=self.leave, max=self.max)
        return self

    def values(self) -> dict[str, str]:
        """Of pids.max."""
        return {"pids.max": str(self.max) if self.max is not None else f"+{self.leave}"}

    def expected(self, name: str, basis: dict[str, Any]) -> str:
        """A number of tasks."""
        used = basis.get("used")
        return str(self.max) if self.max is not None else str(used + (self.leave or 0)) if isinstance(used, int) else ""

    def acted(self, during: Reading, after: Reading) -> int:
        """Refused since the act."""
        return self.counted(after).get("max", 0)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Amounts."""
        shown = self.shown_file(after, "pids.current")
        said = (f"{shown} of {self.shown_file(after, 'pids.max')} processes and threads",) if shown else ()
        return (*said, *super().notes(before, during, after))
