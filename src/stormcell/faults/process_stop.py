"""`process.stop`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from stormcell.faults._reading import mapping
from stormcell.faults._target import Target, listed, restarts, who
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading

_STOPPED = ("T", "t")


class ProcessStop(Target):
    """Processes hang: they are there, keep their connections, and do nothing until the undo.

    `signal` stops each process, which its parent may see and undo. `freeze` stops the whole cgroup, new processes too,
    and nobody is told. Whoever waits for an answer waits; the kernel still accepts connections for them.
    """

    kind = "process.stop"
    needs = Needs(paths=("/sys/fs/cgroup/cgroup.controllers",))
    counts = "processes that stood still until the undo"
    proves = "state T in /proc/PID/stat (or `frozen 1` in cgroup.events), and CPU time that did not grow meanwhile"
    example: ClassVar[dict[str, Any]] = {"kind": "process.stop", "service": "postgresql"}

    how: Literal["signal", "freeze"] = "signal"
    """`signal`: SIGSTOP and at last SIGCONT. `freeze`: cgroup.freeze."""

    @property
    def moves(self) -> bool:
        """To be frozen, who is no group is put into one."""
        return self.how == "freeze" and self.folder is None

    def plan(self) -> Act:
        """Who is stopped is written down by pid and start time first, and let go by these alone."""
        return Act(
            apply=(Command(argv=(GUEST, "stop", "halt", self.id, self.how, *self.target)),),
            undo=(Command(argv=(GUEST, "stop", "release", self.id)),),
            read=(Command(argv=(GUEST, "stop", "show", self.id, *self.target), name="stop"),),
        )

    def conflicts(self, other: Fault) -> str | None:
        """The first undo would let go what the other stopped."""
        if (why := self.moved_twice(other)) is not None:
            return why
        if isinstance(other, ProcessStop) and self.same_target(other):
            return "both stop the same processes, and the first undo would let them go on"
        return None

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Everybody who was stopped and lives is stopped."""
        was, now = mapping(before, "stop"), mapping(during, "stop")
        if not was or was.get("how") is not None or now.get("how") != self.how:
            return False
        there = listed(now.get("stopped"))
        return bool(there) and all(self._still(process, now) for process in there)

    def _still(self, process: dict[str, Any], shown: dict[str, Any]) -> bool:
        if self.how == "freeze":
            return shown.get("frozen") is True and str(process.get("in")).startswith(str(shown.get("folder")))
        return process.get("state") in _STOPPED

    def acted(self, during: Reading, after: Reading) -> int:
        """Stopped at the act and still at the end, without a tick of CPU time in between; not those stopped before."""
        then = {
            (p.get("pid"), p.get("start_time")): p.get("ticks") for p in listed(mapping(during, "stop").get("stopped"))
        }
        shown = mapping(after, "stop")
        return sum(
            self._still(process, shown)
            and then.get((process.get("pid"), process.get("start_time")), -1) == process.get("ticks")
            and process.get("was") not in _STOPPED
            for process in listed(shown.get("stopped"))
        )

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Nobody is stopped who was not before, and nothing is frozen."""
        shown = mapping(undone, "stop")
        if "how" not in shown or shown["how"] is not None or shown.get("frozen"):
            return False
        stopped = {p.get("pid") for p in listed(mapping(before, "stop").get("now")) if p.get("state") in _STOPPED}
        return all(p.get("state") not in _STOPPED or p.get("pid") in stopped for p in listed(shown.get("now")))

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who went on before the undo, who came anew."""
        shown = mapping(after, "stop")
        said = [
            f"process {who(process)} did not stand still (state {process.get('state')})"
            for process in listed(shown.get("stopped"))
            if not self._still(process, shown)
        ]
        frozen = self.how == "freeze" and self.folder is not None
        return (*said, *restarts(shown.get("targets"), shown.get("now"), covered=frozen))
