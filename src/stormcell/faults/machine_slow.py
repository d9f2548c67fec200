"""`machine.slow`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._fields import Documented, shown
from stormcell.faults._reading import mapping
from stormcell.spec.fault import GUEST, MACHINE, Act, Command, Fault, Needs, Reading
from stormcell.spec.units import Duration, Percent

TOLERANCE = 0.1
GAPS_S = 0.1


class MachineSlow(Documented):
    """The host runs the machine only for a share of the time, many times a second stopped and let go on.

    The guest's clocks go on: it sees its processors taken away again and again, as on an overcommitted host.
    """

    kind = "machine.slow"
    on_machine = True
    needs = Needs()
    counts = "stops in which the host's kernel showed the virtual machine monitor as stopped"
    proves = "the share of time that it was stopped, as measured, and its state T in the host's /proc at each stop"
    example: ClassVar[dict[str, Any]] = {"kind": "machine.slow", "speed": "25%"}

    speed: Percent
    """Share of the time that the machine runs, 5% to 95%."""
    period: Duration = 0.02
    """Of running and standing still together, 5ms to 500ms."""

    @model_validator(mode="after")
    def _sensible(self) -> MachineSlow:
        if not 5 <= self.speed <= 95:
            raise ValueError(f"a speed of {self.speed:g}% is out of range; it is between 5% and 95%")
        if not 0.005 <= self.period <= 0.5:
            raise ValueError(f"a period of {shown(self.period)} is out of range; it is between 5ms and 500ms")
        return self

    def plan(self) -> Act:
        """`gaps` shows what a busy loop in the guest sees of it."""
        return Act(
            apply=(Command(argv=(MACHINE, "slow", f"{self.speed / 100:g}", f"{self.period:g}")),),
            undo=(Command(argv=(MACHINE, "full-speed")),),
            read=(
                Command(argv=(GUEST, "clock", "gaps", f"{GAPS_S:g}"), name="gaps"),
                Command(argv=(MACHINE, "speed"), name="speed"),
            ),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """It is being stopped in these periods, and for that share of the time, within 10 % of the whole."""
        now = mapping(during, "speed")
        measured = _running_share(now)
        return (
            not mapping(before, "speed")
            and now.get("running") is True
            and now.get("share") == round(self.speed / 100, 9)
            and now.get("period_s") == self.period
            and measured is not None
            and abs(measured - self.speed / 100) <= TOLERANCE
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Seen by the host's kernel, since the act."""
        seen = mapping(after, "speed").get("seen")
        return seen if isinstance(seen, int) else 0

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Nobody stops it any more."""
        return undone.text("speed") == "{}"

    def change(self, to: MachineSlow) -> tuple[Command, ...]:
        """Another share or period takes over at once."""
        return (Command(argv=(MACHINE, "full-speed")), *to.plan().apply)

    def conflicts(self, other: Fault) -> str | None:
        """A second hand on the brake."""
        return "the machine can be slowed down once" if isinstance(other, MachineSlow) else None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """The share, on both sides."""
        said = []
        now = mapping(after, "speed")
        if (measured := _running_share(now)) is not None:
            said.append(f"the machine ran for {measured:.1%} of {now['seconds']:.1f} s ({now.get('stops')} stops)")
        for label, reading in (("before", before), ("under the fault", after)):
            gaps = mapping(reading, "gaps")
            lost, whole = gaps.get("lost_s"), gaps.get("seconds")
            if isinstance(lost, int | float) and isinstance(whole, int | float) and whole > 0:
                said.append(f"{label}, a busy loop in the guest missed {lost / whole:.0%} of the time")
        return tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """Steal."""
        return ("the guest's steal time (/proc/stat) does not show it: this machine has no paravirtual clock",)


def _running_share(now: dict[str, Any]) -> float | None:
    seconds, stopped = now.get("seconds"), now.get("stopped_s")
    if not isinstance(seconds, int | float) or not isinstance(stopped, int | float) or seconds <= 0:
        return None
    return 1 - stopped / seconds
