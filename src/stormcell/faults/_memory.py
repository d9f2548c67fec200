"""Shared by the faults that take memory: a holder of ours, what it holds by kind of page, and who died for it."""

from __future__ import annotations

from typing import Any

from stormcell.faults._holders import gone, number, standing
from stormcell.faults._reading import mapping, mappings
from stormcell.faults._target import Target, listed, pid_of, restarts
from stormcell.spec.fault import GUEST, Act, Command, Fault, Reading
from stormcell.spec.units import size_text

FIRST_VICTIM = 1000
PASSIVE = "/sys/fs/cgroup/stormcell/faults"
KINDS = {"anon": "RssAnon", "locked": "VmLck", "shmem": "RssShmem", "file": "RssFile"}
"""Kind of page to its line in /proc/PID/status."""


class MemoryTaker(Target):
    """A process of ours that takes memory and keeps it, in the group of the target."""

    needs_target = False

    def work(self) -> tuple[str, ...]:
        """The verb of guest/tools/memory/hold.py, and its arguments after the target."""
        raise NotImplementedError

    def plan(self) -> Act:
        """The holder is the first victim of the kernel before it takes its first page."""
        verb, *arguments = self.work()
        return Act(
            apply=(Command(argv=(GUEST, "hold", verb, self.id, *self.target, *arguments), timeout_s=90),),
            undo=(Command(argv=(GUEST, "hold", "stop", self.id)),),
            read=(Command(argv=(GUEST, "hold", "show", self.id, *self.target), name="hold"),),
        )

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """The old holder ends, then the new one starts."""
        if not isinstance(to, type(self)) or self.target != to.target:
            return None
        plan = to.named(self.id, self.number).plan()
        return (*plan.undo, *plan.apply)

    def holder(self, reading: Reading | None, comm: str) -> dict[str, Any] | None:
        """Ours, when it stands where it should, first victim of the kernel."""
        shown = mapping(reading, "hold")
        charged = str(shown.get("target")) if self.target[0] != "none" else PASSIVE
        found = [h for h in standing(reading, "hold", comm) if h.get("oom_score_adj") == FIRST_VICTIM]
        there = len(found) == 1 and str(found[0].get("in")).startswith(f"{charged}/")
        return found[0] if there and shown.get("asked") == list(self.work()[1:]) else None

    def held(self, reading: Reading | None, comm: str, pages: str) -> int:
        """Bytes of that kind that the holder has beyond what it had at its start, by the kernel's count."""
        holder = self.holder(reading, comm)
        if holder is None:
            return 0
        now, then = number(holder.get("memory"), KINDS[pages]), number(holder.get("knows"), KINDS[pages])
        return max(0, int((now or 0) - (then or 0)))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The holder and its group are gone, and with them its memory."""
        return gone(undone, "hold")

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What the target's group is charged with, what is left in the guest, who was killed."""
        shown = mapping(after, "hold")
        said = list(_charged(shown))
        available, then = number(shown, "available"), number(shown, "available_at_act")
        if available is not None and then is not None:
            said.append(f"memory available in the guest: {_mib(then)} before, {_mib(available)} now")
        ours = {holder.get("pid") for holder in listed(shown.get("started"))}
        for kill in mappings(shown.get("kills")):
            which = "our holder" if pid_of(kill) in ours else "another process"
            said.append(f"kernel log: out of memory, killed {kill.get('pid')} ({kill.get('comm')}), {which}")
        return (*said, *restarts(shown.get("targets"), shown.get("now"), covered=self.folder is not None))


def _charged(shown: dict[str, Any]) -> tuple[str, ...]:
    files, then = shown.get("files"), shown.get("at_act")
    if not isinstance(files, dict) or not isinstance(then, dict) or shown.get("target") is None:
        return ()
    now, was = str(files.get("memory.current")).strip(), str(then.get("memory.current")).strip()
    if not (now.isdigit() and was.isdigit()):
        return ()
    return (f"memory.current of {shown['target']}: {_mib(int(was))} before, {_mib(int(now))} now",)


def _mib(count: float) -> str:
    return size_text(int(count) >> 20 << 20)
