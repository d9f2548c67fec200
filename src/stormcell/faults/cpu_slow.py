"""`cpu.slow`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._cgroup import CgroupLimit
from stormcell.faults._quota import LEAST_QUOTA_US, quota, throttled, whole_of
from stormcell.faults._reading import mapping
from stormcell.spec.fault import Needs, Reading
from stormcell.spec.units import Percent

PERIOD_US = 5000


class CpuSlow(CgroupLimit):
    """Everything that a service computes takes longer, as on a processor with a lower frequency.

    A quota with a period so short (5 ms) that it is felt as slowness and not as pauses. The kernel grants at least 1 ms
    at a time, so a speed below 20% has a longer period. Kernel work that is charged to others is not slowed.
    """

    kind = "cpu.slow"
    counters = "cpu.stat"
    shown = ("cpu.pressure",)
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "periods in which the group was throttled"
    proves = "nr_throttled in cpu.stat of that cgroup"
    example: ClassVar[dict[str, Any]] = {"kind": "cpu.slow", "service": "postgresql", "speed": "40%"}

    speed: Percent
    """Of all CPUs of the guest together: 1% to 99%."""

    @model_validator(mode="after")
    def _sensible(self) -> CpuSlow:
        if not 1 <= self.speed <= 99:
            raise ValueError(f"a speed of {self.speed:g}% is out of range; it is between 1% and 99%")
        return self

    @property
    def period_us(self) -> int:
        """5 ms, or what 1 ms is the share of."""
        return max(PERIOD_US, round(LEAST_QUOTA_US * 100 / self.speed))

    def values(self) -> dict[str, str]:
        """The share of the period on every CPU."""
        return {"cpu.max": f"{self.speed:g}%/{self.period_us}:cpus"}

    def expected(self, name: str, basis: dict[str, Any]) -> str:
        """`quota period`."""
        return quota(self.speed, self.period_us, basis)

    def acted(self, during: Reading, after: Reading) -> int:
        """nr_throttled."""
        return self.counted(after).get("nr_throttled", 0)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What the speed is of, how long it waited, how much it ran."""
        said = whole_of(self.speed, mapping(during, "cgroup").get("basis")) if during else ()
        return (*said, *throttled(self.counted(after)), *super().notes(before, during, after))

    def cannot_know(self) -> tuple[str, ...]:
        """Single threads."""
        alone = "the quota is for all threads together: on several CPUs one thread alone may run at full speed"
        return (alone, *super().cannot_know())
