"""`clock.strobe`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._clock import WallClock, number, whole
from stormcell.faults._fields import shown
from stormcell.faults._reading import mapping
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading
from stormcell.spec.units import Duration, Offset

DAY = 86400
TOLERANCE = 0.1


class ClockStrobe(WallClock):
    """The wall clock jumps away and back again, over and over: half of each period it is off by `by`."""

    kind = "clock.strobe"
    needs = Needs()
    counts = "jumps of the wall clock, there or back"
    proves = "CLOCK_REALTIME - CLOCK_BOOTTIME, at each reading either the old one or off by the jump"
    example: ClassVar[dict[str, Any]] = {"kind": "clock.strobe", "by": "-10m", "period": "200ms"}

    by: Offset
    """Forwards, or with a minus backwards; 10ms to 365 days."""
    period: Duration = 0.2
    """Of one jump there and back, 10ms to 10m."""

    @model_validator(mode="after")
    def _sensible(self) -> ClockStrobe:
        if not 0.01 <= abs(self.by) <= 365 * DAY:
            raise ValueError(f"a jump by {shown(self.by)} is out of range; it is between 10ms and 365 days, either way")
        if not 0.01 <= self.period <= 600:
            raise ValueError(f"a period of {shown(self.period)} is out of range; it is between 10ms and 10m")
        return self

    @property
    def nanoseconds(self) -> int:
        """Of the jump."""
        return round(self.by * 1e9)

    def plan(self) -> Act:
        """The undo ends the process that does it, then puts the clock right."""
        strobe = (GUEST, "clock", "strobe", self.id, str(self.nanoseconds), f"{self.period:g}")
        return Act(
            apply=(self.began(), Command(argv=strobe)),
            undo=self.put_back(),
            read=self.reads(),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The process is alive and does it with these parameters; the clock stands at one of the two places."""
        hand = _hand(during)
        was, now = number(before, "offset"), number(during, "offset")
        if was is None or now is None or mapping(before, "watch").get("hand", ...) is not None:
            return False
        allowed = TOLERANCE * abs(self.nanoseconds)
        there = any(abs(now - was - place) <= allowed for place in (0, self.nanoseconds))
        return (
            there
            and hand.get("alive") is True
            and hand.get("mode") == "strobe"
            and hand.get("by") == self.nanoseconds
            and hand.get("period_s") == self.period
            and self.held_as_asked(during)
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """Since the reading after the act."""
        first, last = (whole(_hand(reading).get("steps")) for reading in (during, after))
        return max(0, last - (first or 0)) if last is not None else 0

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The offset is the old one again, and nobody sets it."""
        return self.is_back(before, undone)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who else."""
        return self.others(after)


def _hand(reading: Reading) -> dict[str, Any]:
    hand = mapping(reading, "watch").get("hand")
    return hand if isinstance(hand, dict) else {}
