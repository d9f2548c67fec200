"""`cpu.limit`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from stormcell.faults._cgroup import CgroupLimit
from stormcell.faults._fields import shown
from stormcell.faults._quota import LEAST_QUOTA_US, quota, throttled, whole_of
from stormcell.faults._reading import mapping
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import CpuPercent, Duration


class CpuLimit(CgroupLimit):
    """A service gets no more CPU time than this share; when it is used up, all its threads wait for the next period."""

    kind = "cpu.limit"
    counters = "cpu.stat"
    shown = ("cpu.pressure",)
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "periods in which the group was throttled"
    proves = "nr_throttled in cpu.stat of that cgroup"
    example: ClassVar[dict[str, Any]] = {"kind": "cpu.limit", "service": "postgresql", "percent": "20%"}

    percent: CpuPercent
    """Of what `of` says. Of one CPU, 250% is two and a half."""
    of: Literal["quota", "cpu"] = "quota"
    """`quota`: of the CPU time that cpu.max of the group, or of one above it, grants already; of one CPU when none is
    set. `cpu`: of one CPU always."""
    period: Duration = 0.1
    """1ms to 1s. A long one makes long pauses."""

    @model_validator(mode="after")
    def _sensible(self) -> CpuLimit:
        if not 1e-3 <= self.period <= 1:
            raise ValueError(f"a period of {shown(self.period)} is out of range; it is between 1ms and 1s")
        if self.percent / 100 * self.period * 1e6 < LEAST_QUOTA_US:
            raise ValueError(
                f"{self.percent:g}% of {shown(self.period)} is less than the 1ms that the kernel grants at least; "
                "choose a longer period"
            )
        return self

    def values(self) -> dict[str, str]:
        """The share of the period."""
        return {"cpu.max": f"{self.percent:g}%/{round(self.period * 1e6)}:{self.of}"}

    def expected(self, name: str, basis: dict[str, Any]) -> str:
        """`quota period`."""
        return quota(self.percent, round(self.period * 1e6), basis if self.of == "quota" else {"cpus": 1})

    def acted(self, during: Reading, after: Reading) -> int:
        """nr_throttled."""
        return self.counted(after).get("nr_throttled", 0)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What the percentage is of, how long it was throttled, how much it ran."""
        said = whole_of(self.percent, mapping(during, "cgroup").get("basis")) if during else ()
        return (*said, *throttled(self.counted(after)), *super().notes(before, during, after))
