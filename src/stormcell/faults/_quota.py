"""CPU quotas: the arithmetic of cpu.max, as guest/tools/cgroup.py does it, and sentences about cpu.stat."""

from __future__ import annotations

from typing import Any

LEAST_QUOTA_US = 1000


def quota(percent: float, period_us: int, basis: dict[str, Any]) -> str:
    """`quota period` for a share of what the basis says is the whole; at least the 1 ms that the kernel takes."""
    whole = _whole(basis)
    return f"{max(LEAST_QUOTA_US, round(percent / 100 * whole * period_us))} {period_us}"


def _whole(basis: dict[str, Any]) -> float:
    """CPUs."""
    limit, period, cpus = basis.get("quota"), basis.get("period"), basis.get("cpus", 1)
    if isinstance(limit, int) and isinstance(period, int) and period > 0:
        return limit / period
    return float(cpus) if isinstance(cpus, int) else 1.0


def whole_of(percent: float, basis: Any) -> tuple[str, ...]:
    """What the percentage was of."""
    given = basis.get("cpu.max") if isinstance(basis, dict) else None
    given = given if isinstance(given, dict) else {}
    whole = _whole(given)
    if "quota" in given:
        return (f"{percent:g}% of the quota that was there ({whole * 100:g}% of a CPU): {percent * whole:g}% of a CPU",)
    return (f"{percent:g}% of {whole:g} CPU{'s' if whole > 1 else ''}",)


def throttled(stat: dict[str, int]) -> tuple[str, ...]:
    """How long a group was throttled, how much it ran."""
    if not {"nr_periods", "nr_throttled", "throttled_usec", "usage_usec"} <= stat.keys():
        return ()
    return (
        f"throttled in {stat['nr_throttled']} of {stat['nr_periods']} periods, threads waited "
        f"{stat['throttled_usec'] / 1e6:.2f} s together; CPU time used {stat['usage_usec'] / 1e6:.2f} s",
    )
