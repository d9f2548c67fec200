"""`net.down`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Devices, Placed
from stormcell.faults._network import Traffic
from stormcell.faults._reading import mapping, texts
from stormcell.spec.fault import GUEST, Act, Command, Fault, Needs, Reading


class Down(Placed):
    """A network device goes down, as by `ip link set down`: its routes are gone, and senders are told so at once.

    A schedule of pulses makes it flap. The undo puts back what the kernel takes away with the link: IPv6 addresses,
    routes, permanent neighbours. (For a cut cable, of which the sender is not told, take net.drop.)
    """

    kind = "net.down"
    needs = Needs(paths=("/sys/class/net",))
    counts = "sends for which the kernel had no route any more, and packets that the device dropped"
    proves = (
        "the device's flags and operational state, and the counters Ip OutNoRoutes, Ip6OutNoRoutes (/proc/net) and "
        "tx_dropped of the device"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "net.down", "device": "eth0"}

    device: Devices = ("eth0",)
    """The network device, or a list of them."""

    @property
    def mark(self) -> str:
        """Under which the guest remembers what the devices had."""
        return f"{self.id}-down"

    def plan(self) -> Act:
        """One call each."""
        return Act(
            apply=(Command(argv=(GUEST, "down", "down", self.mark, *self.device), name="down"),),
            undo=(Command(argv=(GUEST, "down", "up", self.mark)),),
            read=(Command(argv=(GUEST, "down", "show", self.mark, *self.device), name="links"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """Every device was up, is down by our hand, and the kernel shows it as down."""
        ours = texts(mapping(during, "links").get("ours"))
        return all(
            _of(before, device).get("up") is True
            and _of(during, device).get("up") is False
            and _of(during, device).get("operstate") == "down"
            and device in ours
            for device in self.device
        )

    def acted(self, during: Reading, after: Reading) -> int:
        """How far the counters rose."""
        rises = [_counts(mapping(after, "links"), "no_routes") - _counts(mapping(during, "links"), "no_routes")]
        rises += [_counts(_of(after, d), "tx_dropped") - _counts(_of(during, d), "tx_dropped") for d in self.device]
        return sum(max(0, rise) for rise in rises) if _of(during, self.device[0]) and _of(after, self.device[0]) else 0

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Up again, with every address, route and permanent neighbour of before."""
        shown = mapping(undone, "links")
        return shown.get("ours") == [] and all(
            _of(undone, device).get("up") is _of(before, device).get("up")
            and isinstance(_of(undone, device).get("has"), list)
            and set(texts(_of(before, device).get("has"))) == set(texts(_of(undone, device).get("has")))
            for device in self.device
        )

    def conflicts(self, other: Fault) -> str | None:
        """On a device that is down nothing else happens."""
        if isinstance(other, Traffic | Down) and set(other.device) & set(self.device):
            names = ", ".join(sorted(set(other.device) & set(self.device)))
            return (
                f"{names} is down under {self.kind}, so {other.kind} has nothing to act on; let them follow each other"
            )
        return None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Carrier changes, and what the kernel took away."""
        said = []
        for device in self.device:
            was, now = (_of(before, device), _of(during, device)) if before and during else ({}, {})
            if was and now:
                changes = _counts(now, "carrier_changes") - _counts(was, "carrier_changes")
                gone = sorted(set(texts(was.get("has"))) - set(texts(now.get("has"))))
                states = f"{was.get('operstate')} before and {now.get('operstate')} under the fault"
                said.append(f"{device}: operational state {states}, {changes} carrier changes")
                said += [f"{device} lost with the link: {', '.join(gone)}"] if gone else []
        return tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """Who else sends; other ways out."""
        return (
            "the counters of sends without a route are those of the whole guest",
            "traffic for which there is another way out takes that, and is not counted",
        )


def _of(reading: Reading | None, device: str) -> dict[str, Any]:
    devices = mapping(reading, "links").get("devices")
    found = devices.get(device) if isinstance(devices, dict) else None
    return found if isinstance(found, dict) else {}


def _counts(table: dict[str, Any], name: str) -> int:
    value = table.get(name)
    return value if isinstance(value, int) else 0
