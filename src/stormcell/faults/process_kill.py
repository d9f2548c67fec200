"""`process.kill`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from stormcell.faults._reading import mapping
from stormcell.faults._target import Target, listed
from stormcell.guest.tools.common import NOBODY
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading


class ProcessKill(Target):
    """Processes get a signal and end, without the chance to tidy up when it is KILL.

    Repeated by a schedule, a turn that finds nobody (a service that is slow to come back) kills nobody and passes; the
    notes name it. When no turn finds anybody the fault could not be applied.
    """

    kind = "process.kill"
    needs = Needs()
    counts = "processes that were signalled and are gone"
    proves = "the victims by pid and start time, written down before the signal, not found again after it"
    example: ClassVar[dict[str, Any]] = {"kind": "process.kill", "service": "postgresql", "signal": "KILL"}

    signal: Literal["KILL", "TERM", "INT", "QUIT", "HUP", "ABRT", "SEGV"] = "KILL"
    """A signal that ends what does not handle it."""

    def plan(self) -> Act:
        """There is nothing to undo: a supervisor may start the victims anew. Only our own note of them is removed."""
        return Act(
            apply=(Command(argv=(GUEST, "kill", "send", self.id, self.signal, *self.target), nobody=NOBODY),),
            undo=(Command(argv=(GUEST, "kill", "forget", self.id)),),
            read=(Command(argv=(GUEST, "kill", "show", self.id, *self.target), name="victims"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The signal was sent to all who were found. Whether they heeded it is what `acted` says."""
        sent = _victims(during, "sent")
        return not _victims(before, "sent") and bool(sent) and any(victim.get("sent") for victim in sent)

    def acted(self, during: Reading, after: Reading) -> int:
        """Signalled, and gone."""
        alive = mapping(after, "victims").get("alive")
        if not isinstance(alive, list):
            return 0
        return sum(bool(v.get("sent")) and v.get("pid") not in alive for v in _victims(after, "sent"))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Our note is gone; nothing else of the fault can be left."""
        return bool(mapping(undone, "victims")) and not _victims(undone, "sent")

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who lives on, who was started anew."""
        if after is None:
            return ()
        sent = _victims(after, "sent")
        alive = mapping(after, "victims").get("alive")
        alive = alive if isinstance(alive, list) else []
        said = [f"signal {self.signal} was sent to process {_who(v)}, which is still there" for v in sent
                if v.get("pid") in alive]  # fmt: skip
        known = {(v.get("pid"), v.get("start_time")) for v in sent}
        new = [v for v in _victims(after, "now") if (v.get("pid"), v.get("start_time")) not in known]
        said += [f"process {_who(v)} is there anew" for v in new[:8]]
        return (*said, f"{len(new) - 8} more processes are there anew") if len(new) > 8 else tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """Restart."""
        return ("the fault is not undone: whether the processes come back is the work of whoever supervises them",)


def _victims(reading: Reading, which: str) -> list[dict[str, Any]]:
    return listed(mapping(reading, "victims").get(which))


def _who(victim: dict[str, Any]) -> str:
    return f"{victim.get('pid')} ({victim.get('comm')})"
