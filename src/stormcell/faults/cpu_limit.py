"""`cpu.limit`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._cgroup import CgroupLimit
from stormcell.faults._fields import shown
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import CpuPercent, Duration

LEAST_QUOTA_US = 1000


class CpuLimit(CgroupLimit):
    """A service gets no more CPU time than this share; when it is used up, all its threads wait for the next period."""

    kind = "cpu.limit"
    file = "cpu.max"
    counters = "cpu.stat"
    shown = ("cpu.pressure",)
    needs = Needs(programs=("cat",), paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "periods in which the group was throttled"
    proves = "nr_throttled in cpu.stat of that cgroup"
    example: ClassVar[dict[str, Any]] = {"kind": "cpu.limit", "service": "postgresql", "percent": "20%"}

    percent: CpuPercent
    """Of one CPU: 250% is two and a half."""
    period: Duration = 0.1
    """1ms to 1s. A long one makes long pauses."""

    @model_validator(mode="after")
    def _sensible(self) -> CpuLimit:
        if not 1e-3 <= self.period <= 1:
            raise ValueError(f"a period of {shown(self.period)} is out of range; it is between 1ms and 1s")
        if self.quota_us < LEAST_QUOTA_US:
            raise ValueError(
                f"{self.percent:g}% of {shown(self.period)} is less than the 1ms that the kernel grants at least; "
                "choose a longer period"
            )
        return self

    @property
    def quota_us(self) -> int:
        """Microseconds of CPU time in each period."""
        return round(self.percent / 100 * self.period * 1e6)

    def value(self) -> str:
        """`quota period`."""
        return f"{self.quota_us} {round(self.period * 1e6)}"

    def acted(self, during: Reading, after: Reading) -> int:
        """nr_throttled."""
        return self.counted(after).get("nr_throttled", 0)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """How long it was throttled, how much it ran."""
        stat = self.counted(after) if after else {}
        if not {"nr_periods", "nr_throttled", "throttled_usec", "usage_usec"} <= stat.keys():
            return ()
        return (
            f"throttled in {stat['nr_throttled']} of {stat['nr_periods']} periods, threads waited "
            f"{stat['throttled_usec'] / 1e6:.2f} s together; CPU time used {stat['usage_usec'] / 1e6:.2f} s",
        )
