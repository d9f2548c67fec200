"""`cpu.load`."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from stormcell.faults._holders import gone, number, standing
from stormcell.faults._reading import mapping
from stormcell.faults._target import Target, restarts
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading
from stormcell.spec.units import CpuPercent

TOLERANCE = 0.2
_SLACK_S = 0.15


class CpuLoad(Target):
    """Processes that burn CPU time run beside a service, or inside its group so that its quota pays for them.

    With a target they are charged to its group: they use up its quota and compete within its share. Without one they
    are a service more, with the same weight as all the others together.
    """

    needs_target = False
    kind = "cpu.load"
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "milliseconds of CPU time burnt"
    proves = "usage_usec in cpu.stat of the burners' own cgroup, below that of the target"
    example: ClassVar[dict[str, Any]] = {"kind": "cpu.load", "service": "postgresql", "percent": "80%"}

    percent: CpuPercent
    """Of what `of` says, by all burners together."""
    of: Literal["quota", "cpu"] = "quota"
    """`quota`: of the CPU time that cpu.max of the target's group, or of one above it, grants; of one CPU when none is
    set. `cpu`: of one CPU always."""
    workers: Annotated[int, Field(strict=True, ge=1, le=64)] | None = None
    """Processes that share the work; as many as are needed when it is not given."""

    @model_validator(mode="after")
    def _sensible(self) -> CpuLoad:
        if self.percent / 100 > self.burners:
            raise ValueError(f"{self.burners} workers cannot burn {self.percent:g}% of a CPU; each burns 100% at most")
        return self

    @property
    def burners(self) -> int:
        """How many processes."""
        return self.workers or math.ceil(self.percent / 100)

    @property
    def _work(self) -> tuple[str, ...]:
        return (str(self.burners), f"{self.percent:g}", self.of)

    def plan(self) -> Act:
        """Burners that end when they are told to, or when their mark is gone."""
        return Act(
            apply=(Command(argv=(GUEST, "burn", "load", self.id, *self.target, *self._work)),),
            undo=(Command(argv=(GUEST, "burn", "stop", self.id)),),
            read=(Command(argv=(GUEST, "burn", "show", self.id, *self.target), name="burn"),),
        )

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """The old burners end, then the new ones start."""
        if not isinstance(to, CpuLoad) or self.target != to.target:
            return None
        plan = to.named(self.id, self.number).plan()
        return (*plan.undo, *plan.apply)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """All burners stand, in the group of the target, each with its share as its name."""
        shown = mapping(during, "burn")
        if not gone(before, "burn") or shown.get("asked") != list(self._work):
            return False
        charged = str(shown.get("target")) if self.target[0] != "none" else "/sys/fs/cgroup/stormcell-targets"
        if not str(shown.get("holders_in")).startswith(f"{charged}/"):
            return False
        share = self._share(shown) / self.burners
        return share > 0 and len(standing(during, "burn", f"sc-burn {share * 100:.5g}%")) == self.burners

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """They burnt what was asked for, or were ready to and had to wait for a CPU or for the quota."""
        if not self.in_force(before, during) or not self.in_force(before, after):
            return False
        asked, used, waited = self._amounts(after)
        low = used + waited >= asked * (1 - TOLERANCE) - _SLACK_S
        return low and used <= asked * (1 + TOLERANCE) + _SLACK_S

    def acted(self, during: Reading, after: Reading) -> int:
        """Since the act."""
        used = number(mapping(after, "burn"), "used_usec")
        return int((used or 0) / 1000)

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The burners and their group are gone."""
        return gone(undone, "burn")

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Usage against the request."""
        shown = mapping(after, "burn")
        asked, used, waited = self._amounts(after)
        said: tuple[str, ...] = ()
        if asked:
            said = (
                f"asked for {self._share(shown) * 100:.4g}% of a CPU: {asked:.2f} s; burnt {used:.2f} s, "
                f"and ready but without a CPU for {waited:.2f} s",
            )
        return (*said, *restarts(shown.get("targets"), shown.get("now"), covered=self.folder is not None))

    def _share(self, shown: dict[str, Any]) -> float:
        """CPUs."""
        basis = shown.get("basis")
        quota, period = number(basis, "quota"), number(basis, "period")
        return self.percent / 100 * (quota / period if quota and period else 1.0)

    def _amounts(self, after: Reading | None) -> tuple[float, float, float]:
        """Seconds of CPU time: asked for since the act, used, waited for."""
        shown = mapping(after, "burn")
        at, begun = number(shown, "at"), number(shown, "begun")
        if at is None or begun is None:
            return 0.0, 0.0, 0.0
        share = self._share(shown)
        holders = standing(after, "burn", f"sc-burn {share / self.burners * 100:.5g}%")
        waited = sum(number(holder, "waited_usec") or 0 for holder in holders)
        return share * (at - begun), (number(shown, "used_usec") or 0) / 1e6, waited / 1e6
