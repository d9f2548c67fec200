"""`cpu.online`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from stormcell.faults._cgroup import CgroupLimit
from stormcell.faults._reading import mapping
from stormcell.faults._target import listed
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading


class CpuOnline(CgroupLimit):
    """Fewer CPUs: for the whole guest by switching them off, or for a service by the set that it may use.

    A guest with no more CPUs than are to be left refuses; its template says how many it has (`vcpus`).
    """

    needs_target = False
    kind = "cpu.online"
    counters = "cpuset.cpus.effective"
    shown = ()
    needs = Needs(paths=("/sys/devices/system/cpu/online",))
    counts = "CPUs that the guest, or the target's processes, cannot use any more"
    proves = "/sys/devices/system/cpu/online; for a target cpuset.cpus.effective of its cgroup"
    example: ClassVar[dict[str, Any]] = {"kind": "cpu.online", "leave": 1}

    leave: Annotated[int, Field(strict=True, ge=1, le=1024)]
    """How many CPUs are left: the first ones of those that could be used."""

    @property
    def _whole(self) -> bool:
        return self.target[0] == "none"

    def values(self) -> dict[str, str]:
        """The set of CPUs."""
        return {"cpuset.cpus": f"first:{self.leave}"}

    def expected(self, name: str, basis: dict[str, Any]) -> str:
        """As the kernel writes a set: `0`, `0-1`, `0,2`."""
        cpus = basis.get("cpus")
        return _ranges([cpu for cpu in cpus if isinstance(cpu, int)][: self.leave]) if isinstance(cpus, list) else "?"

    def plan(self) -> Act:
        """Of the whole guest: what was switched off is written down first."""
        if not self._whole:
            return super().plan()
        return Act(
            apply=(Command(argv=(GUEST, "online", "take", self.id, str(self.leave))),),
            undo=(Command(argv=(GUEST, "online", "give", self.id)),),
            read=(Command(argv=(GUEST, "online", "show", self.id), name="online"),),
        )

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """Another set for the same target."""
        return None if self._whole else super().change(to)

    def conflicts(self, other: Fault) -> str | None:
        """The guest has one set of CPUs."""
        if isinstance(other, CpuOnline) and (self._whole or other._whole):
            return "both decide which CPUs there are"
        return None if self._whole else super().conflicts(other)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """So many are left, and there were more."""
        if not self._whole:
            return super().in_force(before, during)
        was, now = _cpus(before, "online"), _cpus(during, "online")
        taken = _cpus(during, "taken")
        return not _cpus(before, "taken") and len(was) > len(now) == self.leave and bool(taken) and not taken & now

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Still so."""
        return self.in_force(before, after) if self._whole else super().lasted(before, during, after)

    def acted(self, during: Reading, after: Reading) -> int:
        """CPUs gone; of a target without processes none."""
        if self._whole:
            return len(_cpus(after, "at_act") - _cpus(after, "online"))
        shown = mapping(after, "cgroup")
        if not listed(shown.get("now")):
            return 0
        return max(0, _size(shown.get("at_act")) - _size(self.shown_file(after, self.counters)))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """All are back."""
        if not self._whole:
            return super().clean(before, undone)
        shown = mapping(undone, "online")
        whole = bool(_cpus(before, "online")) and _cpus(before, "online") == _cpus(undone, "online")
        return whole and "taken" in shown and shown["taken"] is None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Which."""
        if not self._whole or after is None:
            return super().notes(before, during, after)
        there = ", ".join(map(str, sorted(_cpus(after, "online"))))
        return (f"online: CPU {there}",) if there else ()

    def cannot_know(self) -> tuple[str, ...]:
        """Whose."""
        return () if self._whole else super().cannot_know()


def _cpus(reading: Reading, which: str) -> set[int]:
    listed = mapping(reading, "online").get(which)
    return {cpu for cpu in listed if isinstance(cpu, int)} if isinstance(listed, list) else set()


def _size(text: Any) -> int:
    """How many CPUs `0-2,4` names."""
    count = 0
    for part in str(text).strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (not last or last.isdigit()):
            count += int(last or first) - int(first) + 1
    return count


def _ranges(cpus: list[int]) -> str:
    parts: list[list[int]] = []
    for cpu in cpus:
        if parts and parts[-1][-1] == cpu - 1:
            parts[-1].append(cpu)
        else:
            parts.append([cpu])
    return ",".join(str(part[0]) if len(part) == 1 else f"{part[0]}-{part[-1]}" for part in parts)
