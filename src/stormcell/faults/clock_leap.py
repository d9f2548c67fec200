"""`clock.leap`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import model_validator

from stormcell.faults._clock import BACK_WITHIN_NS, WallClock, number, whole
from stormcell.faults._fields import shown
from stormcell.faults._reading import mapping
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading
from stormcell.spec.units import Duration

FLAG = {"insert": 0x10, "delete": 0x20}
STEP = {"insert": 1, "delete": -1}
TOLERANCE_NS = 100_000_000
DAY_NS = 86400 * 10**9


class ClockLeap(WallClock):
    """A leap second: the wall clock is set to just before midnight UTC, and the kernel inserts or deletes a second.

    insert: 23:59:59 comes twice. delete: 23:59:59 does not come. The kernel does it as on any such night.
    """

    kind = "clock.leap"
    needs = Needs()
    counts = "leap seconds that the kernel made"
    proves = "the kernel's TAI offset, one more or one less, and CLOCK_REALTIME - CLOCK_BOOTTIME, off by that second"
    example: ClassVar[dict[str, Any]] = {"kind": "clock.leap", "second": "insert", "lead": "3s"}

    second: Literal["insert", "delete"] = "insert"
    """Which."""
    lead: Duration = 3.0
    """How long before midnight the clock is set to, 2500ms to 1h; the fault must be in force for longer."""

    @model_validator(mode="after")
    def _sensible(self) -> ClockLeap:
        if not 2.5 <= self.lead <= 3600:
            raise ValueError(f"a lead of {shown(self.lead)} is out of range; it is between 2500ms and 1h")
        return self

    def plan(self) -> Act:
        """The undo takes the flag away and restores the clock and the TAI offset."""
        return Act(
            apply=(self.began(), Command(argv=(GUEST, "clock", "leap", self.id, self.second, f"{self.lead:g}"))),
            undo=(Command(argv=(GUEST, "clock", "leap-back", self.id, "{before:state}", "{before:offset}")),),
            read=(
                *self.reads(),
                Command(argv=(GUEST, "clock", "leap-state"), name="state"),
                Command(argv=(GUEST, "clock", "kernel"), name="kernel"),
            ),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The kernel has the flag, and the wall clock was `lead` before midnight at the act."""
        status, was = whole(mapping(during, "kernel").get("status")), whole(mapping(before, "kernel").get("status"))
        acted_at, offset = whole(mapping(during, "watch").get("acted_at")), number(during, "offset")
        if status is None or was is None or acted_at is None or offset is None or was & FLAG[self.second]:
            return False
        rest = DAY_NS - (acted_at + offset) % DAY_NS
        planned = bool(status & FLAG[self.second]) and abs(rest - self.lead * 1e9) <= TOLERANCE_NS
        return planned and self.held_as_asked(during)

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """Planned still, or done; nobody else moved the clock."""
        moved = _moved(during, after)
        return self.in_force(before, during) and moved is not None and abs(moved) <= 1e9 + TOLERANCE_NS

    def acted(self, during: Reading, after: Reading) -> int:
        """1 when both the kernel's count and the clock itself made the step."""
        first, last = (whole(mapping(reading, "kernel").get("tai")) for reading in (during, after))
        moved = _moved(during, after)
        if first is None or last is None or moved is None:
            return 0
        step = STEP[self.second]
        return int(last - first == step and abs(moved + step * 10**9) <= TOLERANCE_NS)

    def clean(self, before: Reading, undone: Reading) -> bool:
        """No leap second is planned, clock and TAI offset are the old ones."""
        was, now = number(before, "offset"), number(undone, "offset")
        near = was is not None and now is not None and abs(now - was) <= BACK_WITHIN_NS
        first, last = mapping(before, "kernel"), mapping(undone, "kernel")
        flags = [whole(shown.get("status")) for shown in (first, last)]
        if not near or None in flags or first.get("tai") != last.get("tai"):
            return False
        both = FLAG["insert"] | FLAG["delete"]
        return (flags[0] or 0) & both == (flags[1] or 0) & both and self.is_back(before, undone)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What the kernel showed."""
        shown = mapping(after, "kernel")
        state = [f"TAI offset {shown.get('tai')}, state: {shown.get('state')}"] if shown else []
        return (*state, *self.others(after))

    def cannot_know(self) -> tuple[str, ...]:
        """The jump to midnight."""
        return (
            "the clock also jumps, to just before midnight, when the fault begins, and back when it ends",
            "the clock counts as not synchronised, so adjtimex(2) answers TIME_ERROR and not TIME_OOP in that second",
        )


def _moved(during: Reading, after: Reading) -> int | None:
    first, last = number(during, "offset"), number(after, "offset")
    return None if first is None or last is None else last - first
