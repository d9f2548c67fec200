"""`clock.jump`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._fields import Documented, shown
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading
from stormcell.spec.units import Offset

YEAR = 365 * 86400
TOLERANCE = 0.1
BACK_WITHIN_NS = 50_000_000


class ClockJump(Documented):
    """The wall clock (CLOCK_REALTIME) of the machine jumps, for every process in it; elapsed time goes on as it was."""

    kind = "clock.jump"
    needs = Needs()
    counts = "jumps of the wall clock that still stood at the undo"
    proves = "CLOCK_REALTIME - CLOCK_BOOTTIME before and after, differing by the jump"
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
            apply=(Command(argv=(GUEST, "clock", "jump", str(self.nanoseconds))),),
            undo=(Command(argv=(GUEST, "clock", "restore", "{before:offset}")),),
            read=(Command(argv=(GUEST, "clock", "offset"), name="offset"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The offset differs by the jump, within 10 %."""
        was, now = _offset(before), _offset(during)
        return was is not None and now is not None and abs(now - was - self.nanoseconds) <= self._allowed()

    def acted(self, during: Reading, after: Reading) -> int:
        """1 when nobody put the clock back in between."""
        first, last = _offset(during), _offset(after)
        return int(first is not None and last is not None and abs(last - first) <= self._allowed())

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The offset is the old one again, within 50 ms."""
        was, now = _offset(before), _offset(undone)
        return was is not None and now is not None and abs(now - was) <= min(BACK_WITHIN_NS, self._allowed())

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """A time daemon at work."""
        first, last = (_offset(reading) if reading else None for reading in (during, after))
        if first is None or last is None or abs(last - first) <= self._allowed():
            return ()
        return (f"something in the guest moved the clock by {(last - first) / 1e9:.3f} s while the fault was in force",)

    def cannot_know(self) -> tuple[str, ...]:
        """Monotonic clocks."""
        return ("only CLOCK_REALTIME moves: CLOCK_MONOTONIC and CLOCK_BOOTTIME, and timers on them, do not notice",)

    def _allowed(self) -> int:
        return round(abs(self.nanoseconds) * TOLERANCE)


def _offset(reading: Reading) -> int | None:
    text = reading.text("offset")
    return int(text) if text.lstrip("-").isdigit() else None
