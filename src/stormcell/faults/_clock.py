"""What the faults on the wall clock share: who else moves it, and putting it back."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, PlainSerializer, WithJsonSchema

from stormcell.faults._fields import Documented
from stormcell.faults._reading import mapping, mappings, numbers
from stormcell.spec.fault import GUEST, Command, Fault, Reading
from stormcell.spec.units import parse, render

BACK_WITHIN_NS = 50_000_000
READ_NS = 1_000_000
"""How far apart two reads of one moment can be, in an emulated guest."""
PARTS = {"ppm": 1.0, "%": 10_000.0}

Rate = Annotated[
    float,
    BeforeValidator(lambda text: parse(text, PARTS, "a rate", "+2%")),
    PlainSerializer(lambda ppm: render(ppm, PARTS), return_type=str),
    WithJsonSchema({"type": "string", "examples": ["+2%", "-150ppm"]}),
]
"""Parts per million, with a sign."""


class WallClock(Documented):
    """A fault that moves CLOCK_REALTIME."""

    stop_daemons: bool = False
    """Hold the time daemons that run (chronyd, ntpd, systemd-timesyncd, ...) with SIGSTOP until the undo."""

    moves: ClassVar[str] = "CLOCK_REALTIME"

    def began(self) -> Command:
        """Before the act: who sets the clock is counted from now on."""
        return Command(argv=(GUEST, "clock", "begin", self.id, "stop" if self.stop_daemons else "leave"))

    def put_back(self) -> tuple[Command, ...]:
        """The undo: our hand off the clock, the offset from before with the time that passed, the daemons on it."""
        return (Command(argv=(GUEST, "clock", "put-back", self.id, "{before:offset}")),)

    def reads(self) -> tuple[Command, ...]:
        """The offset, and who else is at work."""
        return (
            Command(argv=(GUEST, "clock", "offset"), name="offset"),
            Command(argv=(GUEST, "clock", "watch", self.id), name="watch"),
        )

    def held_as_asked(self, during: Reading) -> bool:
        """Somebody counts who sets the clock, and the daemons that run are held, if that was asked for."""
        watch = mapping(during, "watch")
        if watch.get("begun") is not True:
            return False
        held = {one.get("pid") for one in mappings(watch.get("held"))}
        return not self.stop_daemons or all(one.get("pid") in held for one in mappings(watch.get("daemons")))

    def is_back(self, before: Reading, undone: Reading) -> bool:
        """The offset is the old one again, within 50 ms, and nothing of ours goes on."""
        was, now, watch = number(before, "offset"), number(undone, "offset"), mapping(undone, "watch")
        near = was is not None and now is not None and abs(now - was) <= BACK_WITHIN_NS
        return near and watch.get("begun") is False and watch.get("hand") is None

    def others(self, after: Reading | None) -> tuple[str, ...]:
        """Who else set the clock while the fault was in force, and who could have."""
        watch = mapping(after, "watch")
        said = []
        if setters := numbers(watch.get("set")):
            said.append(f"the clock was set by {_named(setters)}")
        if adjusters := numbers(watch.get("adjusted")):
            said.append(f"its rate was read or adjusted by {_named(adjusters)}")
        if held := mappings(watch.get("held")):
            said.append(f"held until the undo: {', '.join(str(one.get('comm')) for one in held)}")
        elif running := mappings(watch.get("daemons")):
            said.append(f"a time daemon runs: {', '.join(str(one.get('comm')) for one in running)}")
        return tuple(said)

    def undone_by(self, after: Reading | None) -> str:
        """Whom the kernel saw moving the clock, in the order of suspicion."""
        watch = mapping(after, "watch")
        for key in ("set", "adjusted"):
            if callers := numbers(watch.get(key)):
                return _named(callers)
        running = mappings(watch.get("daemons"))
        return ", ".join(str(one.get("comm")) for one in running) or "something in the guest"

    def conflicts(self, other: Fault) -> str | None:
        """One hand on each clock."""
        if isinstance(other, WallClock):
            return f"both move {self.moves}: the undo of one would undo the other"
        return None

    def cannot_know(self) -> tuple[str, ...]:
        """Monotonic clocks."""
        return (
            "only CLOCK_REALTIME moves: CLOCK_MONOTONIC and CLOCK_BOOTTIME, and timers on them, do not notice",
            "the kernel counts calls that set the clock; what a daemon meant by adjtimex(2) is not seen",
        )


def number(reading: Reading | None, name: str) -> int | None:
    """A whole number that a command printed, None when it printed anything else."""
    text = reading.text(name) if reading is not None else ""
    return int(text) if text.isascii() and text.removeprefix("-").isdecimal() and len(text) < 40 else None


def whole(value: Any) -> int | None:
    """A whole number out of JSON, None for anything else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _named(callers: dict[str, int]) -> str:
    shown = [f"{name} ({count}x)" for name, count in list(callers.items())[:4]]
    return ", ".join(shown) + (f" and {len(callers) - 4} more" if len(callers) > 4 else "")
