"""`net.cut`."""

from __future__ import annotations

from typing import Any, ClassVar

from stormcell.faults._fields import Addresses, HostNames, Placed, Port
from stormcell.faults._reading import mapping, texts
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading


class Cut(Placed):
    """TCP connections that are open are reset, now: both ends get ECONNRESET. New ones may be made at once."""

    kind = "net.cut"
    needs = Needs(modules=("inet_diag", "tcp_diag"))
    counts = "sockets that the kernel destroyed"
    proves = (
        "the kernel's acknowledgement of each socket's destruction (INET_DIAG_DESTROY), no such connection in the list "
        "right after, and its counter of resets (Tcp EstabResets)"
    )
    example: ClassVar[dict[str, Any]] = {"kind": "net.cut", "remote_port": 5432}

    address: Addresses = ()
    """Only connections whose peer has one of these addresses or is in one of these networks."""
    host: HostNames = ()
    """Only connections to what these names mean in the guest when the fault acts."""
    remote_port: Port | None = None
    """Only connections whose peer has this port. Neither addresses, names nor ports: every connection."""
    local_port: Port | None = None
    """Only connections whose end in this machine has this port."""

    @property
    def mark(self) -> str:
        """Under which the guest remembers what was cut."""
        return f"{self.id}-cut"

    def plan(self) -> Act:
        """One call each."""
        ports = (str(self.remote_port or 0), str(self.local_port or 0))
        return Act(
            apply=(Command(argv=(GUEST, "cut", "cut", self.mark, *ports, *self.address, *self.host), name="cut"),),
            undo=(Command(argv=(GUEST, "cut", "forget", self.mark)),),
            read=(Command(argv=(GUEST, "cut", "show", self.mark), name="cut"),),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """It was carried out, and none of the chosen connections was there right after."""
        cut = mapping(during, "cut").get("cut")
        was = mapping(before, "cut")
        return "cut" in was and was["cut"] is None and isinstance(cut, dict) and cut.get("left") == []

    def acted(self, during: Reading, after: Reading) -> int:
        """Sockets destroyed; the act itself did it, so `during` has the count already."""
        return len(_cut(after, "destroyed"))

    def clean(self, before: Reading, undone: Reading) -> bool:
        """Nothing is remembered."""
        shown = mapping(undone, "cut")
        return "cut" in shown and shown["cut"] is None

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """Which, and the kernel's own count of resets."""
        said = [f"cut {text}" for text in _cut(after, "destroyed")[:20]]
        more = len(_cut(after, "destroyed")) - len(said)
        said += [f"and {more} others"] if more > 0 else []
        said += [f"{text} had ended before" for text in _cut(after, "ended before")]
        shown = mapping(after, "cut").get("cut")
        if isinstance(shown, dict) and said:
            said.append(f"the kernel counted {shown.get('resets')} resets of established connections meanwhile")
        return tuple(said)

    def cannot_know(self) -> tuple[str, ...]:
        """Peers in this machine; the network."""
        return (
            "of a connection within this machine each end is a socket: a choice by port or peer names one of them, and "
            "the other learns of it by the reset",
            "the reset may be lost on its way like any packet: then the peer learns of it with its next packet",
        )


def _cut(reading: Reading | None, name: str) -> list[str]:
    shown = mapping(reading, "cut").get("cut")
    return texts(shown.get(name)) if isinstance(shown, dict) else []
