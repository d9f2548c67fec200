"""`clock.jump`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._clock import BACK_WITHIN_NS, WallClock, number
from stormcell.faults._fields import shown
from stormcell.faults._reading import mapping
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading
from stormcell.spec.units import Offset

YEAR = 365 * 86400
TOLERANCE = 0.1


class ClockJump(WallClock):
    """The wall clock (CLOCK_REALTIME) of the machine jumps, for every process in it; elapsed time goes on as it was."""

    kind = "clock.jump"
    needs = Needs()
    counts = "jumps of the wall clock that still stood at the undo"
    proves = (
        "CLOCK_REALTIME - CLOCK_BOOTTIME before and after, differing by the jump; who else set the clock, as the "
        "kernel's tracer counted"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "clock.jump", "by": "-1h"}

    by: Offset
    """Forwards, or with a minus backwards; 10ms to 50 years. The kernel takes no time before its own boot + 1970."""

    @model_validator(mode="after")
    def _sensible(self) -> ClockJump:
        if not 0.01 <= abs(self.by) <= 50 * YEAR:
            raise ValueError(f"a jump by {shown(self.by)} is out of range; it is between 10ms and 50 years, either way")
        return self

    @property
    def nanoseconds(self) -> int:
        """Of the jump."""
        return round(self.by * 1e9)

    def plan(self) -> Act:
        """The undo restores the offset from before: the time that passed is kept, whatever a time daemon did since."""
        return Act(
            apply=(self.began(), Command(argv=(GUEST, "clock", "jump", str(self.nanoseconds)))),
            undo=self.put_back(),
            read=self.reads(),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The offset differs by the jump, within 10 %."""
        was, now = number(before, "offset"), number(during, "offset")
        jumped = was is not None and now is not None and abs(now - was - self.nanoseconds) <= self._allowed()
        return jumped and self.held_as_asked(during)

    def acted(self, during: Reading, after: Reading) -> int:
        """1 when nobody put the clock back in between."""
        first, last = number(during, "offset"), number(after, "offset")
        if first is None or last is None or not mapping(after, "watch"):
            return 0
        return int(abs(last - first) <= self._allowed())

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The offset is the old one again, within 50 ms."""
        was, now = number(before, "offset"), number(undone, "offset")
        near = was is not None and now is not None and abs(now - was) <= min(BACK_WITHIN_NS, self._allowed())
        return near and self.is_back(before, undone)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """A time daemon at work."""
        was, now = number(before, "offset"), number(after, "offset")
        if was is None or now is None or abs(now - was - self.nanoseconds) <= self._allowed():
            return self.others(after)
        far = f"the clock was off by {(now - was) / 1e9:.3f} s before the undo, not by {self.by:.3f} s"
        return (f"undone by {self.undone_by(after)}: {far}", *self.others(after))

    def _allowed(self) -> int:
        return round(abs(self.nanoseconds) * TOLERANCE)
