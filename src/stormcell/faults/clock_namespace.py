"""`clock.namespace`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import model_validator

from stormcell.faults._fields import Placed, ServiceName, shown
from stormcell.faults._reading import mapping, mappings
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading
from stormcell.spec.units import Offset

YEAR = 365 * 86400
TOLERANCE_NS = 20_000_000
UNSURE_NS = 500_000_000
CLOCKS = ("monotonic", "boottime")


class ClockNamespace(Placed):
    """CLOCK_MONOTONIC and CLOCK_BOOTTIME are off for a service that is started anew in a time namespace of its own.

    A machine has one wall clock, which no namespace moves: for CLOCK_REALTIME see clock.jump. No running process can be
    moved into the namespace either, so the service is restarted, at the act and at the undo. Without a service,
    commands enter it by `stormcell-guest timens run FAULT COMMAND ...` (in an experiment with one fault: `fault`).
    """

    kind = "clock.namespace"
    needs = Needs(paths=("/proc/self/timens_offsets",))
    counts = "processes in the namespace"
    proves = (
        "the offsets as a process in it measures them against one outside, and which processes are in it by "
        "/proc/PID/ns/time"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "clock.namespace", "service": "web", "monotonic": "30d"}

    service: ServiceName | None = None
    """A service of the template; it is restarted. Without one, the namespace waits for commands."""
    monotonic: Offset = 0.0
    """Added to CLOCK_MONOTONIC, up to 50 years. The kernel lets no clock fall below 0."""
    boottime: Offset = 0.0
    """Added to CLOCK_BOOTTIME, in the same way."""

    @model_validator(mode="before")
    @classmethod
    def _movable(cls, given: Any) -> Any:
        for name in ("realtime", "raw", "tai") if isinstance(given, dict) else ():
            if name in given:
                mend = "; use clock.jump, which moves it for the whole machine" if name == "realtime" else ""
                raise ValueError(f"no namespace moves CLOCK_{_ID[name]}: it has {' and '.join(map(str, CLOCKS))}{mend}")
        return given

    @model_validator(mode="after")
    def _sensible(self) -> ClockNamespace:
        if not self.monotonic and not self.boottime:
            raise ValueError("neither 'monotonic' nor 'boottime' is given: such a namespace changes nothing")
        for name, offset in zip(CLOCKS, (self.monotonic, self.boottime), strict=True):
            if offset and not 0.1 <= abs(offset) <= 50 * YEAR:
                raise ValueError(f"'{name}' of {shown(offset)} is out of range; it is between 100ms and 50 years")
        return self

    def plan(self) -> Act:
        """By subcommands that know the supervisor."""
        offsets = [str(round(offset * 1e9)) for offset in (self.monotonic, self.boottime)]
        make = (GUEST, "timens", "make", self.id, *offsets, self.service or "-")
        return Act(
            apply=(Command(argv=make, timeout_s=90),),
            undo=(Command(argv=(GUEST, "timens", "unmake", self.id), timeout_s=90),),
            read=(Command(argv=(GUEST, "timens", "show", self.id), name="namespace"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Inside, both clocks are off by what was asked for and the wall clock is not; the service is inside."""
        was, now = mapping(before, "namespace"), mapping(during, "namespace")
        offsets = now.get("offsets")
        if was.get("made") is not False or now.get("made") is not True or not isinstance(offsets, dict):
            return False
        unsure = now.get("uncertain")
        if not isinstance(unsure, int) or unsure > UNSURE_NS:
            return False
        wanted = {"monotonic": self.monotonic, "boottime": self.boottime, "realtime": 0.0}
        for name, seconds in wanted.items():
            seen = offsets.get(name)
            if not isinstance(seen, int) or abs(seen - seconds * 1e9) > TOLERANCE_NS + unsure:
                return False
        return now.get("service") == (self.service or "-") and (not self.service or bool(_members(during)))

    def acted(self, during: Reading, after: Reading) -> int:
        """As the kernel names their namespace, now or just after the act."""
        return max(len(_members(after)), len(_members(during))) if mapping(after, "namespace").get("made") else 0

    def clean(self, before: Reading, undone: Reading) -> bool:
        """It is gone."""
        return mapping(undone, "namespace").get("made") is False

    def conflicts(self, other: Fault) -> str | None:
        """A process lives in one time namespace."""
        if isinstance(other, ClockNamespace) and other.service == self.service and self.service:
            return f"service {self.service} can live in one time namespace"
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Who is inside."""
        inside = [f"{one.get('comm')}[{one.get('pid')}]" for one in _members(after)]
        return (f"in the namespace: {', '.join(inside[:8])}",) if inside else ()

    def cannot_know(self) -> tuple[str, ...]:
        """Which clocks."""
        said = [
            "CLOCK_REALTIME is the machine's; CLOCK_MONOTONIC_RAW moves with CLOCK_MONOTONIC, CPU clocks do not",
            "what happens while the service is restarted, at the act and at the undo, is not the clocks' doing",
        ]
        return tuple(said if self.service else said[:1])


_ID = {"realtime": "REALTIME", "raw": "MONOTONIC_RAW alone", "tai": "TAI"}


def _members(reading: Reading | None) -> list[dict[str, Any]]:
    return mappings(mapping(reading, "namespace").get("members"))
