"""`machine.link`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Documented
from stormcell.spec.fault import MACHINE, Act, Command, Fault, Needs, Reading

CARD = "eth0"
FILES = ("operstate", "carrier", "carrier_changes", "carrier_down_count")


class MachineLink(Documented):
    """The cable of the machine's network card is pulled by the host: the guest loses its carrier, in both directions.

    What the host reaches through an open port is not reached meanwhile. The loopback device and the agent's channel
    have no cable.
    """

    kind = "machine.link"
    on_machine = True
    needs = Needs(programs=("cat",))
    counts = "cards that had no carrier from the act to the undo"
    proves = "carrier_changes, carrier and operstate of eth0 as the guest's kernel shows them"
    example: ClassVar[dict[str, Any]] = {"kind": "machine.link"}

    def plan(self) -> Act:
        """The virtual machine monitor unplugs and plugs in."""
        return Act(
            apply=(Command(argv=(MACHINE, "link", "down")),),
            undo=(Command(argv=(MACHINE, "link", "up")),),
            read=(Command(argv=("cat", *(f"/sys/class/net/{CARD}/{name}" for name in FILES)), name="card"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """The carrier was there, and is gone."""
        was, now = _card(before), _card(during)
        return was.get("carrier") == "1" and now.get("carrier") == "0" and now.get("operstate") == "down"

    def acted(self, during: Reading, after: Reading) -> int:
        """1 while the guest's kernel shows no carrier, from the act to the undo."""
        return int(all(_card(reading).get("carrier") == "0" for reading in (during, after)))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """The carrier is back."""
        was, now = _card(before), _card(undone)
        return bool(was) and (was.get("carrier"), was.get("operstate")) == (now.get("carrier"), now.get("operstate"))

    def conflicts(self, other: Fault) -> str | None:
        """A second hand on the cable."""
        return "the machine has one cable, and it can be pulled once" if isinstance(other, MachineLink) else None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """The counts."""
        if before is None or after is None or not (was := _card(before)) or not (now := _card(after)):
            return ()
        return (f"carrier_changes of {CARD}: {was.get('carrier_changes')} before, {now.get('carrier_changes')} after",)

    def cannot_know(self) -> tuple[str, ...]:
        """The loopback device."""
        return (
            "the machine has one card; services inside that talk over the loopback device are not cut from each other",
        )


def _card(reading: Reading) -> dict[str, str]:
    """By file name; empty when one of the files could not be read."""
    lines = reading.text("card").split("\n")
    return dict(zip(FILES, lines, strict=True)) if len(lines) == len(FILES) else {}
