"""`memory.swap-off`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Documented, GuestPath
from stormcell.faults._holders import number
from stormcell.faults._reading import mapping, mappings, numbers
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading


class MemorySwapOff(Documented):
    """Swap space is taken away: what was swapped out has to come back into memory, and nothing more can go.

    The kernel refuses when what is swapped out does not fit into memory; then nothing is done.
    """

    kind = "memory.swap-off"
    needs = Needs(paths=("/proc/swaps",))
    counts = "KiB of swap space taken away"
    proves = "/proc/swaps, which lists the area before and not any more; pswpin counts the pages that came back"
    example: ClassVar[dict[str, Any]] = {"kind": "memory.swap-off"}

    device: GuestPath | None = None
    """The device or file, as /proc/swaps has it. All of them when it is not given."""

    def plan(self) -> Act:
        """The areas are written down with their priorities first."""
        return Act(
            apply=(Command(argv=(GUEST, "swap", "off", self.id, self.device or "all"), timeout_s=120),),
            undo=(Command(argv=(GUEST, "swap", "on", self.id)),),
            read=(Command(argv=(GUEST, "swap", "show", self.id), name="swap"),),
        )

    def conflicts(self, other: Fault) -> str | None:
        """One takes away what the other writes down."""
        if isinstance(other, MemorySwapOff) and (None in (self.device, other.device) or self.device == other.device):
            return "both take the same swap away"
        return None

    def in_force(self, before: Reading, during: Reading) -> bool:
        """What was asked for was there, and is not any more."""
        was, now = _areas(before, "areas"), _areas(during, "areas")
        off = _areas(during, "off")
        asked = {self.device} if self.device else set(was)
        return (
            bool(asked)
            and not _areas(before, "off")
            and asked <= set(was)
            and set(off) == asked
            and not asked & set(now)
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """The size of the areas that are gone."""
        now = _areas(after, "areas")
        return sum(size for device, size in _areas(after, "off").items() if device not in now) >> 10

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Every area is back."""
        shown = mapping(undone, "swap")
        return "off" in shown and shown["off"] is None and _areas(before, "areas") == _areas(undone, "areas")

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """What was in use of each, pages that came back."""
        off = mappings(mapping(after, "swap").get("off"))
        said = [f"{area.get('device')}: {(area.get('used') or 0) >> 10} KiB were in use" for area in off
                if isinstance(area.get("used"), int)]  # fmt: skip
        now, then = (numbers(mapping(after, "swap").get(key)).get("pswpin") for key in ("counters", "at_act"))
        if now is not None and then is not None:
            said.append(f"{now - then} pages were read back from swap since the act")
        return tuple(said)


def _areas(reading: Reading, which: str) -> dict[str, int]:
    found = mappings(mapping(reading, "swap").get(which))
    return {
        area["device"]: int(number(area, "size") or 0)
        for area in found
        if isinstance(area.get("device"), str) and number(area, "size") is not None
    }
