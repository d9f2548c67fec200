"""`machine.pause`."""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from stormcell.faults._fields import Documented, shown
from stormcell.faults._reading import mapping
from stormcell.spec.fault import MACHINE, Act, Command, Fault, Needs, Reading
from stormcell.spec.units import Duration

ALLOWED_S = 0.5
BACK_WITHIN_NS = 250_000_000


class MachinePause(Documented):
    """The whole machine stands still for a while, in the midst of its work, and goes on as if nothing had been.

    clock stops: its clocks stand still too, as while it is migrated, saved or suspended by its host; afterwards its
    wall clock is behind. clock runs: the clocks go on without it, as when the host has no processor for it.
    """

    kind = "machine.pause"
    on_machine = True
    needs = Needs()
    counts = "pauses that the virtual machine monitor or the host's kernel showed, and that the clocks agree with"
    proves = (
        "the monitor's STOP and RESUME events and its state in between (clock stops), or state T in the host's /proc "
        "(clock runs); and the guest's clocks against the host's"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "machine.pause", "for": "3s", "clock": "stops"}

    seconds: Duration = Field(alias="for")
    """How long, 50ms to 20s."""
    clock: Literal["stops", "runs"] = "stops"
    """Whether the guest's clocks stand still meanwhile, or go on."""
    delay: Duration = 0.3
    """How long after the act's begin, so that the probes are at work by then; 0 to 60s."""

    @model_validator(mode="after")
    def _sensible(self) -> MachinePause:
        if not 0.05 <= self.seconds <= 20:
            raise ValueError(f"a pause of {shown(self.seconds)} is out of range; it is between 50ms and 20s")
        if not 0 <= self.delay <= 60:
            raise ValueError(f"a delay of {shown(self.delay)} is out of range; it is at most 1m")
        return self

    def plan(self) -> Act:
        """The undo also sets the wall clock, which is behind by the pause."""
        pause = (MACHINE, "pause", self.clock, f"{self.seconds:g}", f"{self.delay:g}")
        return Act(
            apply=(Command(argv=pause, timeout_s=self.delay + self.seconds + 60),),
            undo=(
                Command(argv=(MACHINE, "resume")),
                Command(argv=(MACHINE, "set-wall", "{before:wall}")),
            ),
            read=(
                Command(argv=(MACHINE, "pauses"), name="pause"),
                Command(argv=(MACHINE, "clocks"), name="clocks"),
                Command(argv=(MACHINE, "wall"), name="wall"),
            ),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """It stood still in the way and for the time that was asked for, and goes on."""
        was, told = mapping(before, "pause"), mapping(during, "pause")
        lasted = told.get("seconds")
        return (
            not was
            and told.get("clock") == self.clock
            and told.get("asked_s") == self.seconds
            and told.get("shown") == ("paused" if self.clock == "stops" else "frozen")
            and told.get("after") == "running"
            and isinstance(lasted, int | float)
            and self.seconds <= lasted <= self.seconds + ALLOWED_S
        )

    def lasted(self, before: Reading, during: Reading, after: Reading) -> bool:
        """It is over by then; what the guest's clocks missed is what was asked for."""
        missed = _missed(before, after)
        if missed is None:
            return False
        told = mapping(during, "pause").get("seconds")
        wanted = told if self.clock == "stops" and isinstance(told, int | float) else 0.0
        return abs(missed[0] - wanted) <= ALLOWED_S + missed[1]

    def acted(self, during: Reading, after: Reading) -> int:
        """1 when it was seen standing still."""
        told = mapping(after, "pause")
        if self.clock == "runs":
            return int(told.get("shown") == "frozen" and told.get("after") == "running")
        events = told.get("events")
        names = [event.get("event") for event in events if isinstance(event, dict)] if isinstance(events, list) else []
        return int(told.get("shown") == "paused" and names[:2] == ["STOP", "RESUME"])

    def clean(self, before: Reading, undone: Reading) -> bool:
        """It runs, and its wall clock is where it was against the host's, within 250 ms."""
        was, now = _number(before, "wall"), _number(undone, "wall")
        near = was is not None and now is not None and abs(now - was) <= BACK_WITHIN_NS
        return near and undone.text("pause") == "{}"

    def conflicts(self, other: Fault) -> str | None:
        """The undo sets the wall clock."""
        if isinstance(other, MachinePause):
            return "the machine can be paused by one fault at a time"
        if other.kind.startswith("clock.") and other.kind != "clock.zone":
            return "the end of a pause sets the wall clock, which the other fault moves"
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """The pause on both sides."""
        told = mapping(during, "pause")
        said = [f"the machine stood still for {told['seconds']:.3f} s"] if _is_number(told.get("seconds")) else []
        if before is not None and after is not None and (missed := _missed(before, after)) is not None:
            said.append(
                f"the guest's CLOCK_MONOTONIC fell behind the host's by {missed[0]:.3f} s (+-{missed[1]:.3f} s)"
            )
        return tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """Samples."""
        if self.clock == "runs":
            return ("a probe in the guest stands still with it: it sees one long answer and sends nothing meanwhile",)
        return ("a probe in the guest does not see the pause: its clock stood still too; probe from the host for that",)


def _missed(before: Reading, after: Reading) -> tuple[float, float] | None:
    """Seconds that the guest's monotonic clock fell behind the host's between two readings, and how sure that is."""
    first, last = mapping(before, "clocks"), mapping(after, "clocks")
    guest = [_number_in(clocks.get("guest"), "monotonic") for clocks in (first, last)]
    host = [_number_in(clocks, "host_monotonic") for clocks in (first, last)]
    unsure = [_number_in(clocks, "uncertain") for clocks in (first, last)]
    if None in (*guest, *host, *unsure):
        return None
    numbers = [float(value) for value in (*guest, *host, *unsure) if value is not None]
    return (numbers[3] - numbers[2] - (numbers[1] - numbers[0])) / 1e9, (numbers[4] + numbers[5]) / 1e9


def _number_in(table: Any, key: str) -> int | None:
    value = table.get(key) if isinstance(table, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(reading: Reading, name: str) -> int | None:
    text = reading.text(name)
    return int(text) if text.lstrip("-").isdecimal() and text.isascii() else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
