"""`cpu.steal`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._fields import shown as duration_shown
from stormcell.faults._holders import gone, number, standing
from stormcell.faults._reading import mapping
from stormcell.faults._target import Target, restarts
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading
from stormcell.spec.units import Duration, Percent

_FIFO = 1
_PRIORITY = 1


class CpuSteal(Target):
    """A share of every CPU is taken away ahead of everybody, so that a service is ready to run and waits.

    As a noisy neighbour on the same host takes it, but seen inside the guest: by a real-time process on each CPU. Every
    ordinary process of the guest waits; the target says whose waiting is counted.
    """

    needs_target = False
    kind = "cpu.steal"
    needs = Needs(paths=("/proc/pressure/cpu",))
    counts = "milliseconds that the target waited for a CPU (no more than were taken)"
    proves = (
        "the rise of cpu.pressure of the target's cgroup, or of the run delay of its processes, and the CPU time taken"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "cpu.steal", "service": "postgresql", "percent": "60%"}

    percent: Percent
    """Of each CPU: 1% to 90%."""
    period: Duration = 0.02
    """It is taken in one piece each period: 1ms to 1s."""

    @model_validator(mode="after")
    def _sensible(self) -> CpuSteal:
        if not 1 <= self.percent <= 90:
            raise ValueError(
                f"{self.percent:g}% is out of range; it is between 1% and 90%, so that the agent still runs"
            )
        if not 1e-3 <= self.period <= 1:
            raise ValueError(f"a period of {duration_shown(self.period)} is out of range; it is between 1ms and 1s")
        return self

    @property
    def _work(self) -> tuple[str, ...]:
        return (f"{self.percent:g}", f"{self.period:g}")

    def plan(self) -> Act:
        """Takers that end when they are told to, or when their mark is gone."""
        return Act(
            apply=(Command(argv=(GUEST, "burn", "steal", self.id, *self.target, *self._work)),),
            undo=(Command(argv=(GUEST, "burn", "stop", self.id)),),
            read=(Command(argv=(GUEST, "burn", "show", self.id, *self.target), name="burn"),),
        )

    def change(self, to: Fault) -> tuple[Command, ...] | None:
        """The old takers end, then the new ones start."""
        if not isinstance(to, CpuSteal) or self.target != to.target:
            return None
        plan = to.named(self.id, self.number).plan()
        return (*plan.undo, *plan.apply)

    def conflicts(self, other: Fault) -> str | None:
        """Real-time processes of one priority wait for each other."""
        return "both take CPU time ahead of everybody else" if isinstance(other, CpuSteal) else None

    def in_force(self, before: Reading, during: Reading) -> bool:
        """A taker stands on each CPU, in the real-time class."""
        takers = standing(during, "burn", f"sc-steal {self.percent:.4g}%")
        real = [t for t in takers if t.get("policy") == _FIFO and t.get("rt_priority") == _PRIORITY]
        on = {str(taker.get("cpus")) for taker in real}
        shown = mapping(during, "burn")
        cpus = number(shown, "cpus") if shown.get("asked") == list(self._work) else None
        return gone(before, "burn") and bool(real) and len(real) == len(on) == cpus

    def acted(self, during: Reading, after: Reading) -> int:
        """Waited since the act, no more than was taken."""
        shown = mapping(after, "burn")
        now, then, taken = number(shown, "waited_usec"), number(shown, "waited_at_act"), number(shown, "used_usec")
        if now is None or then is None or taken is None:
            return 0
        return int(max(0.0, min(now - then, taken)) / 1000)

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The takers and their group are gone."""
        return gone(undone, "burn")

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Taken against the request, waited."""
        shown = mapping(after, "burn")
        at, begun, taken = number(shown, "at"), number(shown, "begun"), number(shown, "used_usec")
        now, then, cpus = number(shown, "waited_usec"), number(shown, "waited_at_act"), number(shown, "cpus")
        if at is None or begun is None or taken is None or now is None or then is None or cpus is None:
            return ()
        whole = max(1e-9, (at - begun) * cpus)
        said = (
            f"took {taken / 1e6:.2f} s of {whole:.2f} s ({taken / 1e4 / whole:.1f}%, asked for {self.percent:g}%); "
            f"the target waited {(now - then) / 1e6:.2f} s"
        )
        return (said, *restarts(shown.get("targets"), shown.get("now"), covered=True))

    def cannot_know(self) -> tuple[str, ...]:
        """What differs from real steal."""
        return ("the guest's own steal counter stays as it is: the time is taken by a process of the guest",)
