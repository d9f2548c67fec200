"""`clock.zone`."""

from __future__ import annotations

import re
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator

from stormcell.faults._fields import Documented
from stormcell.faults._reading import mapping
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading

ZONES = "/usr/share/zoneinfo"
_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}\Z")


def _zone(name: str) -> str:
    if not _ZONE.match(name) or name.startswith(("-", "+")):
        raise ValueError(f"'{name}' is no name of a time zone; write for example America/New_York or Etc/GMT+12")
    return name


class ClockZone(Documented):
    """The machine is in another time zone: /etc/localtime and /etc/timezone are others; the clock itself stays.

    The files that were there are moved aside and put back. A process looks at them when it first asks for local time.
    """

    kind = "clock.zone"
    needs = Needs(paths=(ZONES,))
    counts = "machines whose new processes see another local time"
    proves = "UTC offset and name of the zone as a new process sees them, before and after"
    example: ClassVar[dict[str, Any]] = {"kind": "clock.zone", "zone": "America/New_York"}

    zone: Annotated[str, AfterValidator(_zone)]
    """A name of the guest's zoneinfo, as in /usr/share/zoneinfo."""

    def plan(self) -> Act:
        """By rename(2), so that no process finds half a file."""
        return Act(
            apply=(Command(argv=(GUEST, "zone", "put", self.id, self.zone)),),
            undo=(Command(argv=(GUEST, "zone", "put-back", self.id)),),
            read=(Command(argv=(GUEST, "zone", "show", self.id, self.zone), name="zone"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Both files name the zone, and a new process is in it."""
        was, now = mapping(before, "zone"), mapping(during, "zone")
        return (
            was.get("ours") is False
            and now.get("ours") is True
            and now.get("localtime") == f"{ZONES}/{self.zone}"
            and now.get("timezone") == self.zone
            and isinstance(now.get("seen"), dict)
            and now.get("seen") == now.get("wanted")
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """1 when a new process still sees it just before the undo, and it is not UTC as the kernel's own clock is."""
        first, last = mapping(during, "zone"), mapping(after, "zone")
        seen = last.get("seen")
        if not isinstance(seen, dict) or seen != first.get("seen") or seen != last.get("wanted"):
            return 0
        return int(last.get("ours") is True and (seen.get("offset_s"), seen.get("name")) != (0, "UTC"))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The same files as before, and the same local time."""
        was, now = mapping(before, "zone"), mapping(undone, "zone")
        keys = ("localtime", "timezone", "ours", "seen")
        return bool(was) and all(was.get(key) == now.get(key) for key in keys)

    def conflicts(self, other: Fault) -> str | None:
        """One pair of files."""
        return "the machine is in one time zone" if isinstance(other, ClockZone) else None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """From where to where."""
        was, now = mapping(before, "zone").get("seen"), mapping(after, "zone").get("seen")
        if not isinstance(was, dict) or not isinstance(now, dict):
            return ()
        return (
            f"local time was {was.get('name')} ({was.get('offset_s')} s east of UTC), "
            f"then {now.get('name')} ({now.get('offset_s')} s)",
        )

    def cannot_know(self) -> tuple[str, ...]:
        """Who looks."""
        return (
            "a process that asked for local time before keeps its zone until it calls tzset(3) again or is restarted",
            "a process with TZ in its environment does not look at these files",
        )
