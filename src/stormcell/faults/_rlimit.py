"""Shared by the faults that lower a resource limit of running processes."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._holders import number
from stormcell.faults._reading import mapping, mappings
from stormcell.faults._target import Target, listed, pid_of, restarts
from stormcell.spec.fault import GUEST, Act, Command, Fault, Reading


class LoweredLimit(Target):
    """A soft limit of the target's processes; the hard one stays, so that it can be put back."""

    limit: ClassVar[str]

    def value(self) -> str:
        """A number, or `+N` for so much more than is used."""
        raise NotImplementedError

    @property
    def which(self) -> str:
        """As guest/tools/process/rlimit.py names it."""
        return self.limit

    def plan(self) -> Act:
        """Old limits are written down by pid and start time first."""
        which = self.which
        return Act(
            apply=(Command(argv=(GUEST, "rlimit", "lower", self.id, which, self.value(), *self.target)),),
            undo=(Command(argv=(GUEST, "rlimit", "restore", self.id)),),
            read=(Command(argv=(GUEST, "rlimit", "show", self.id, which, *self.target), name="rlimit"),),
        )

    def conflicts(self, other: Fault) -> str | None:
        """A process has one such limit."""
        if isinstance(other, type(self)) and (self.same_target(other) or self.target[0] == other.target[0] == "none"):
            return "both lower the same limit of the same processes"
        return None

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The kernel shows the new limit for every process that was lowered and lives."""
        was, now = mapping(before, "rlimit"), mapping(during, "rlimit")
        if (
            not was
            or was.get("limit") is not None
            or (now.get("limit"), now.get("value")) != (self.which, self.value())
        ):
            return False
        lowered = listed(now.get("lowered"))
        kept = all(isinstance(p.get("new"), int) and p.get("shown") == p.get("new") != p.get("soft") for p in lowered)
        exact = self.value().startswith("+") or all(p.get("new") == int(self.value()) for p in lowered)
        return bool(lowered) and kept and exact and now.get("counting") is True

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Still so, or everybody who was lowered is gone."""
        shown = mapping(after, "rlimit")
        ended = shown.get("limit") == self.which and shown.get("counting") is True and shown.get("lowered") == []
        return self.in_force(before, during) and (ended or self.in_force(before, after))

    def acted(self, during: Reading, after: Reading) -> int:
        """Refusals of the target's processes, those that came since too."""
        shown = mapping(after, "rlimit")
        mine = {p.get("pid") for key in ("targets", "now") for p in listed(shown.get(key))}
        return sum(int(number(r, "hits") or 0) for r in mappings(shown.get("refused")) if pid_of(r) in mine)

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Everybody has the limit that he had, and nothing counts any more."""
        shown = mapping(undone, "rlimit")
        if "limit" not in shown or shown["limit"] is not None or shown.get("counting") is not False:
            return False
        had = {
            (p.get("pid"), p.get("start_time")): p.get("shown") for p in listed(mapping(before, "rlimit").get("now"))
        }
        has = {(p.get("pid"), p.get("start_time")): p.get("shown") for p in listed(shown.get("now"))}
        return all(has[key] == value for key, value in had.items() if key in has)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who was refused, and the limits."""
        shown = mapping(after, "rlimit")
        mine = {p.get("pid") for key in ("targets", "now") for p in listed(shown.get(key))}
        said = [
            f"process {p.get('pid')} ({p.get('comm')}): limit {p.get('new')}, was {p.get('soft')}"
            for p in listed(shown.get("lowered"))[:8]
        ]
        said += [_refused(r, pid_of(r) in mine or self.target[0] == "none") for r in mappings(shown.get("refused"))[:8]]
        return (*said, *restarts(shown.get("targets"), shown.get("now"), covered=False))


def _refused(entry: dict[str, Any], target: bool) -> str:
    whose = "" if target else ", which is no target"
    return f"{entry.get('hits')} calls of {entry.get('comm')} [{entry.get('thread')}] were refused{whose}"
