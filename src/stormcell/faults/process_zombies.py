"""`process.zombies`."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import Field

from stormcell.faults._holders import gone, number, standing
from stormcell.faults._reading import mapping
from stormcell.faults._target import Target
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading


class ProcessZombies(Target):
    """A pile of processes that have ended and that nobody waits for; each keeps its pid.

    With a target they are in its cgroup, where they count against pids.max.
    """

    needs_target = False
    kind = "process.zombies"
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "zombies"
    proves = "state Z in /proc/PID/stat of the children of a process of ours"
    example: ClassVar[dict[str, Any]] = {"kind": "process.zombies", "count": 200}

    count: Annotated[int, Field(strict=True, ge=1, le=20_000)]
    """How many."""

    def plan(self) -> Act:
        """They end with their parent: init waits for them then."""
        return Act(
            apply=(Command(argv=(GUEST, "zombies", "make", self.id, str(self.count), *self.target), timeout_s=90),),
            undo=(Command(argv=(GUEST, "zombies", "stop", self.id)),),
            read=(Command(argv=(GUEST, "zombies", "show", self.id, *self.target), name="zombies"),),
        )

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """The old pile goes, then the new one comes."""
        if not isinstance(to, ProcessZombies) or self.target != to.target:
            return None
        plan = to.named(self.id, self.number).plan()
        return (*plan.undo, *plan.apply)

    def in_force(self, before: Reading, during: Reading) -> bool:
        """As many as were asked for, in the group that was asked for."""
        shown = mapping(during, "zombies")
        charged = str(shown.get("target")) if self.target[0] != "none" else "/sys/fs/cgroup/stormcell/faults"
        there = standing(during, "zombies", "sc-zombies") and str(shown.get("holders_in")).startswith(f"{charged}/")
        return gone(before, "zombies") and bool(there) and number(shown, "zombies") == self.count

    def acted(self, during: Reading, after: Reading) -> int:
        """At the end."""
        return int(number(mapping(after, "zombies"), "zombies") or 0)

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Parent, zombies and group are gone."""
        return gone(undone, "zombies")

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Tasks in the group."""
        files = mapping(after, "zombies").get("files")
        current = str(files.get("pids.current")).strip() if isinstance(files, dict) else ""
        return (f"the group counts {current} processes and threads",) if current.isdigit() else ()
