"""`clock.slow`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._clock import WallClock, number, whole
from stormcell.faults._fields import shown
from stormcell.faults._reading import mapping
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading
from stormcell.spec.units import Duration, Percent

TOLERANCE = 0.1
AT_FIRST_S = 0.05


class ClockSlow(WallClock):
    """The wall clock creeps, or stands still, far slower than the kernel's own adjustment (clock.drift) can make it.

    A process in the guest sets it back at every step to where it would be at that speed. Within a step it runs at full
    speed: the step is the resolution of the fault.
    """

    kind = "clock.slow"
    needs = Needs()
    counts = "times that the wall clock was set back"
    proves = "CLOCK_REALTIME against CLOCK_BOOTTIME: its rate between the two readings"
    example: ClassVar[dict[str, Any]] = {"kind": "clock.slow", "speed": "50%", "step": "50ms"}

    speed: Percent
    """Share of the true speed, 0% (it stands still) to 95%."""
    step: Duration = 0.05
    """How often it is set back, 5ms to 10s."""

    @model_validator(mode="after")
    def _sensible(self) -> ClockSlow:
        if not 0 <= self.speed <= 95:
            raise ValueError(f"a speed of {self.speed:g}% is out of range; it is between 0% and 95%")
        if not 0.005 <= self.step <= 10:
            raise ValueError(f"a step of {shown(self.step)} is out of range; it is between 5ms and 10s")
        return self

    def plan(self) -> Act:
        """The undo ends the process first, then puts the clock right."""
        slow = (GUEST, "clock", "slow", self.id, f"{self.speed / 100:g}", f"{self.step:g}")
        return Act(
            apply=(self.began(), Command(argv=slow)),
            undo=self.put_back(),
            read=(*self.reads(), Command(argv=(GUEST, "clock", "all"), name="clocks")),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The process that sets it is alive and does so with these parameters."""
        hand = _hand(during)
        return (
            mapping(before, "watch").get("hand", ...) is None
            and hand.get("alive") is True
            and hand.get("mode") == "slow"
            and hand.get("speed") == round(self.speed / 100, 9)
            and hand.get("step_s") == self.step
            and self.held_as_asked(during)
        )

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Still at it, and the clock is where it should be: within 10 %, and a step."""
        boot, now = (whole(mapping(after, "clocks").get(name)) for name in ("boottime", "realtime"))
        was, start = number(before, "offset"), whole(mapping(before, "clocks").get("boottime"))
        if not self.in_force(before, after) or boot is None or now is None or was is None or start is None:
            return False
        elapsed = boot - start
        behind = (was + boot) - now
        wanted = elapsed * (1 - self.speed / 100)
        return abs(behind - wanted) <= TOLERANCE * elapsed + (self.step + AT_FIRST_S) * 1e9

    def acted(self, during: Reading, after: Reading) -> int:
        """Since the reading after the act."""
        first, last = (whole(_hand(reading).get("steps")) for reading in (during, after))
        return max(0, last - (first or 0)) if last is not None else 0

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The offset is the old one again, and nobody sets it."""
        return self.is_back(before, undone)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """How far behind it came."""
        was, now = number(before, "offset"), number(after, "offset")
        behind = [] if was is None or now is None else [f"the wall clock came {(was - now) / 1e9:.3f} s behind"]
        return (*behind, *self.others(after))

    def cannot_know(self) -> tuple[str, ...]:
        """The step."""
        step = f"within each step of {shown(self.step)} the clock runs at full speed and is then set back"
        return (step, *super().cannot_know())


def _hand(reading: Reading) -> dict[str, Any]:
    hand = mapping(reading, "watch").get("hand")
    return hand if isinstance(hand, dict) else {}
