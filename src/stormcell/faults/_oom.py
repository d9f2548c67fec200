"""Shared by the faults that bring about an out-of-memory kill."""

from __future__ import annotations

from typing import Literal

from stormcell.faults._reading import mapping, mappings
from stormcell.faults._target import Target, restarts
from stormcell.spec.fault import GUEST, Act, Command, Fault, Reading

_SCORES = {"target": -1000, "stressor": 1000, "any": 0}


class OomKill(Target):
    """A process of ours takes memory until the kernel has killed somebody, then it ends."""

    victim: Literal["target", "stressor", "any"] = "target"
    """Who is to die. `target`: a process of the target is made the first victim and ours is spared. `stressor`: our
    process is the first victim. `any`: whom the kernel chooses."""

    def work(self) -> tuple[str, ...]:
        """The verb of guest/tools/memory/oom.py, then its arguments."""
        raise NotImplementedError

    def plan(self) -> Act:
        """The scores are written before the first page is taken."""
        verb, *arguments = self.work()
        return Act(
            apply=(Command(argv=(GUEST, "oom", verb, self.id, *self.target, self.victim, *arguments), timeout_s=60),),
            undo=(Command(argv=(GUEST, "oom", "end", self.id)),),
            read=(Command(argv=(GUEST, "oom", "show", self.id, *self.target), name="oom"),),
        )

    def conflicts(self, other: Fault) -> str | None:
        """Two that wait for a kill take the other's for theirs."""
        return "both wait for the kernel to kill somebody, and cannot tell whose kill it was" \
            if isinstance(other, OomKill) else None  # fmt: skip

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Our process was there with the score that belongs to the victim that was asked for."""
        shown = mapping(during, "oom")
        stressor = mappings(shown.get("stressor"))
        scored = bool(stressor) and all(s.get("oom_score_adj") == _SCORES[self.victim] for s in stressor)
        was = mapping(before, "oom")
        return bool(was) and was.get("victim") is None and shown.get("victim") == self.victim and scored

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """It is one act."""
        return self.in_force(before, during) and self.in_force(before, after)

    def acted(self, during: Reading, after: Reading) -> int:
        """Kills of the victim that was asked for."""
        kills = mappings(mapping(after, "oom").get("kills"))
        return sum(self.victim == "any" or kill.get("is") == self.victim for kill in kills)

    def clean(self, before: Reading, undone: Reading) -> bool:
        """No stressor, no limit and no score of ours is left."""
        shown = mapping(undone, "oom")
        files = [mapping(reading, "oom").get("files") for reading in (before, undone)]
        limits = [item.get("memory.max") if isinstance(item, dict) else None for item in files]
        return "victim" in shown and shown["victim"] is None and not shown.get("scores") and limits[0] == limits[1]

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who was killed, by the kernel's own log."""
        shown = mapping(after, "oom")
        whose = {"stressor": "our stressor", "target": "the target"}
        said = tuple(
            f"kernel log: out of memory, killed {kill.get('pid')} ({kill.get('comm')}): "
            f"{whose.get(str(kill.get('is')), 'neither the target nor ours')}"
            for kill in mappings(shown.get("kills"))
        )
        return (*said, *restarts(shown.get("targets"), shown.get("now"), covered=False))
