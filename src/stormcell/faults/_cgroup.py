"""Faults that are limits written to a cgroup: of a service, of another group, or of processes moved to one of ours."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._reading import mapping
from stormcell.faults._target import ROOT, Target, listed, restarts, who
from stormcell.spec.fault import GUEST, Act, Command, Fault, Reading

__all__ = ["ROOT", "CgroupLimit", "table"]


class CgroupLimit(Target):
    """Files of a cgroup get other values; the counters of the group tell what came of it.

    A service or a cgroup is limited where it is. Processes found in another way are moved into a group of their own for
    the time of the fault, so that bystanders in their old group are left alone; those that still live are moved back.
    """

    counters: ClassVar[str]
    shown: ClassVar[tuple[str, ...]]

    @property
    def moves(self) -> bool:
        """Who is no group."""
        return self.folder is None and self.target[0] != "none"

    def values(self) -> dict[str, str]:
        """What is written to which file, as the guest's tool takes it (guest/tools/cgroup.py)."""
        raise NotImplementedError

    def expected(self, name: str, basis: dict[str, Any]) -> str:
        """What the kernel then shows; `basis` is what the value depends on, as the guest said at the act."""
        return self.values()[name]

    def plan(self) -> Act:
        """Written by a subcommand that keeps the counters as they were, so that the act itself is counted."""
        values = [f"{name}={value}" for name, value in self.values().items()]
        show = (GUEST, "cgroup", "show", self.id, self.counters, *self.target, *self.values(), *self.shown)
        return Act(
            apply=(Command(argv=(GUEST, "cgroup", "set", self.id, self.counters, *self.target, *values)),),
            undo=(Command(argv=(GUEST, "cgroup", "restore", self.id)),),
            read=(Command(argv=show, name="cgroup"),),
        )

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """Other values for the same files of the same group."""
        if not isinstance(to, type(self)) or self.target != to.target or self.values().keys() != to.values().keys():
            return None
        values = [f"{name}={value}" for name, value in to.values().items()]
        return (Command(argv=(GUEST, "cgroup", "change", self.id, *values)),)

    def conflicts(self, other: Fault) -> str | None:
        """One file has one value, and a process is in one group."""
        if (why := self.moved_twice(other)) is not None or not isinstance(other, CgroupLimit):
            return why
        both = sorted(self.values().keys() & other.values().keys())
        if both and self.same_target(other):
            return f"both write {', '.join(both)} of {self.folder}"
        return None

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The values are there, and they were not there before."""
        was = mapping(before, "cgroup")
        if not was or was.get("at_act") is not None or not self._written(during):
            return False
        if any(self.shown_file(before, name) == self.shown_file(during, name) for name in self.values()):
            return False
        return self.folder is not None or bool(self._moved(during))

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """The values stayed. That the processes which were moved are dead by now does not end a limit."""
        return self.in_force(before, during) and self._written(after)

    def _written(self, reading: Reading) -> bool:
        shown = mapping(reading, "cgroup")
        basis = shown.get("basis")
        given = basis if isinstance(basis, dict) else {}
        wanted = {
            name: self.expected(name, item if isinstance(item := given.get(name), dict) else {})
            for name in self.values()
        }
        return isinstance(shown.get("at_act"), str) and all(
            self.shown_file(reading, name) == value for name, value in wanted.items()
        )

    def _moved(self, reading: Reading) -> list[dict[str, Any]]:
        """Processes of the target that are in our group."""
        shown = mapping(reading, "cgroup")
        return [p for p in listed(shown.get("moved")) if shown.get("folder") and p.get("in") == shown.get("folder")]

    def counted(self, reading: Reading | None) -> dict[str, int]:
        """The counters since just before the act. Empty when the reading is torn."""
        now = table(self.shown_file(reading, self.counters))
        then = table(mapping(reading, "cgroup").get("at_act"))
        return {key: max(0, now[key] - then[key]) for key in now if key in then}

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The values are the old ones; a group of ours is gone."""
        was, now = mapping(before, "cgroup"), mapping(undone, "cgroup")
        if not now or not was or now.get("at_act") is not None or now.get("previous") is not None:
            return False
        return all(self.shown_file(before, name) == self.shown_file(undone, name) for name in self.values())

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who was moved, and who came anew."""
        shown = mapping(after, "cgroup")
        said = restarts(shown.get("targets"), shown.get("now"), covered=self.folder is not None)
        moved = self._moved(during) if during is not None and self.folder is None else []
        if moved:
            group = mapping(during, "cgroup").get("folder")
            said = (f"moved to {group} for the fault: {', '.join(who(p) for p in moved[:8])}", *said)
        return said

    def cannot_know(self) -> tuple[str, ...]:
        """Of processes that are moved."""
        if self.folder is not None:
            return ()
        return (
            "processes are moved to a group of their own for the fault: page cache and memory that they had before "
            "stay charged to their old group, and processes that start elsewhere later are not met",
        )

    def shown_file(self, reading: Reading | None, name: str) -> str:
        """The text of a file in a reading, empty when there is none."""
        files = mapping(reading, "cgroup").get("files")
        text = files.get(name) if isinstance(files, dict) else None
        return text.strip() if isinstance(text, str) else ""


def table(text: Any) -> dict[str, int]:
    """`key value` lines, as cgroup v2 files have them."""
    pairs = (line.split() for line in text.splitlines()) if isinstance(text, str) else ()
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
