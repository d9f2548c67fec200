"""`clock.drift`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._clock import BACK_WITHIN_NS, PARTS, READ_NS, Rate, WallClock, number, whole
from stormcell.faults._reading import mapping
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading
from stormcell.spec.units import render

TICK, TICK_PPM, SCALE = 10_000, 100, 1 << 16
TOLERANCE = 0.1


class ClockDrift(WallClock):
    """All clocks that programs use go too fast or too slow: the kernel is told another length of its tick.

    CLOCK_REALTIME, CLOCK_MONOTONIC and CLOCK_BOOTTIME drift together, and timeouts with them; CLOCK_MONOTONIC_RAW keeps
    the hardware's rate. For more than 10 % see clock.slow.
    """

    kind = "clock.drift"
    needs = Needs()
    counts = "microseconds that CLOCK_MONOTONIC drifted from CLOCK_MONOTONIC_RAW"
    proves = "tick and frequency as adjtimex(2) shows them, and both clocks measured against CLOCK_MONOTONIC_RAW"
    example: ClassVar[dict[str, Any]] = {"kind": "clock.drift", "by": "+5%"}
    moves = "the rate of the clocks, and with it CLOCK_REALTIME"

    by: Rate
    """Faster, or with a minus slower; 1ppm to 10%, either way."""

    @model_validator(mode="after")
    def _sensible(self) -> ClockDrift:
        if not 1 <= abs(self.by) <= 100_000:
            raise ValueError(f"a drift by {render(self.by, PARTS)} is out of range; the kernel takes 1ppm to 10%")
        return self

    @property
    def rate(self) -> tuple[int, int]:
        """Tick in us, and the rest as a frequency in ppm scaled by 2^16."""
        ticks = round(self.by / TICK_PPM)
        return TICK + ticks, round((self.by - ticks * TICK_PPM) * SCALE)

    def plan(self) -> Act:
        """The undo also sets the wall clock to where it would be without the drift; the others keep theirs."""
        tick, freq = self.rate
        return Act(
            apply=(self.began(), Command(argv=(GUEST, "clock", "drift", str(tick), str(freq)))),
            undo=(Command(argv=(GUEST, "clock", "drift-back", self.id, "{before:rate}", "{before:raw}")),),
            read=(
                Command(argv=(GUEST, "clock", "rate"), name="rate"),
                Command(argv=(GUEST, "clock", "raw-offset"), name="raw"),
                Command(argv=(GUEST, "clock", "all"), name="clocks"),
                Command(argv=(GUEST, "clock", "watch", self.id), name="watch"),
            ),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The kernel shows that tick and that frequency, and had others before."""
        wanted = "{},{}".format(*self.rate)
        was = before.text("rate")
        return bool(was) and was != wanted and during.text("rate") == wanted and self.held_as_asked(during)

    def acted(self, during: Reading, after: Reading) -> int:
        """In the direction and at the rate that was asked for, within 10 % and what a reading can tell."""
        if (measured := _drifted(during, after)) is None:
            return 0
        drifted, elapsed = measured
        wanted = elapsed * self.by / 1e6
        near = abs(drifted - wanted) <= TOLERANCE * abs(wanted) + READ_NS
        return abs(drifted) // 1000 if near and drifted * wanted > 0 else 0

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The old rate, and the wall clock as far from the raw one as before."""
        was, now = number(before, "raw"), number(undone, "raw")
        near = was is not None and now is not None and abs(now - was) <= BACK_WITHIN_NS
        same_rate = bool(before.text("rate")) and before.text("rate") == undone.text("rate")
        return near and same_rate and mapping(undone, "watch").get("begun") is False

    def change(self, to: ClockDrift) -> tuple[Command, ...]:
        """Another rate from now on."""
        tick, freq = to.rate
        return (Command(argv=(GUEST, "clock", "drift", str(tick), str(freq))),)

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What was measured."""
        said = list(self.others(after))
        if during is not None and after is not None and (measured := _drifted(during, after)) is not None:
            drifted, elapsed = measured
            said.insert(0, f"CLOCK_MONOTONIC drifted {drifted / 1e6:+.3f} ms in {elapsed / 1e9:.3f} s of the raw clock")
            if during.text("rate") != after.text("rate"):
                said.insert(0, f"undone by {self.undone_by(after)}: the rate became {after.text('rate')}")
        return tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """What is measured with drifting clocks."""
        return (
            "the runner's own clock (CLOCK_MONOTONIC) drifts too: durations in the guest are off by the drift",
            "after the undo CLOCK_MONOTONIC and CLOCK_BOOTTIME keep what they drifted; no kernel sets them back",
        )


def _drifted(during: Reading, after: Reading) -> tuple[int, int] | None:
    """Nanoseconds that CLOCK_MONOTONIC gained on the raw clock, and nanoseconds that passed on that."""
    first, last = mapping(during, "clocks"), mapping(after, "clocks")
    values = [whole(clocks.get(name)) for name in ("monotonic", "raw") for clocks in (first, last)]
    if any(value is None for value in values):
        return None
    began, ended, raw_began, raw_ended = (value for value in values if value is not None)
    elapsed = raw_ended - raw_began
    return ended - began - elapsed, elapsed
