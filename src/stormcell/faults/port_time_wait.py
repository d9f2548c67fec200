"""`port.time-wait`."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from stormcell.faults._fields import Port
from stormcell.faults._ports import READ_RESERVED, TRACEPOINT, TakenPorts
from stormcell.faults._reading import mapping, numbers
from stormcell.spec.fault import GUEST, Act, Command, Needs, Reading


def _host(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise ValueError(f"'{text}' is no address of one host; write for example 10.0.2.2 or ::1") from None


class PortTimeWait(TakenPorts):
    """Every local port towards one server is held by a closed connection in TIME_WAIT; other servers can be reached.

    Only `count` ports are left to choose from, and connections to that server are opened and closed until all of them
    wait. A port in TIME_WAIT can be used for every other peer.
    """

    kind = "port.time-wait"
    needs = Needs(programs=("cat",), paths=(TRACEPOINT,))
    counts = "connects of other processes that were refused for want of a local port"
    proves = "a histogram of sys_exit by process, call and errno, and the waiting sockets in /proc/net/tcp"
    example: ClassVar[dict[str, Any]] = {"kind": "port.time-wait", "remote_port": 5432}

    remote_port: Port
    """The server's TCP port. It must accept connections, and not be the one who closes first."""
    address: Annotated[str, AfterValidator(_host)] = "127.0.0.1"
    """The server's address, IPv4 or IPv6."""
    count: Annotated[int, Field(strict=True, ge=2, le=2000)] = 64
    """Ports, an even number: the kernel leaves the last of an odd one alone."""

    @property
    def left(self) -> int:
        """Those that are piled on."""
        return self.count + self.count % 2

    def plan(self) -> Act:
        """tcp_tw_reuse would give the ports out again, on loopback after a second."""
        peer = (self.address, str(self.remote_port))
        reuse = Command(argv=("cat", "/proc/sys/net/ipv4/tcp_tw_reuse"), name="reuse")
        return Act(
            apply=(Command(argv=(GUEST, "ports", "pile", self.id, *peer, str(self.left)), timeout_s=120),),
            undo=(Command(argv=(GUEST, "ports", "restore", self.id, "{before:reserved}", "{before:reuse}")),),
            read=(READ_RESERVED, reuse, Command(argv=(GUEST, "ports", "show", self.id, *peer), name="ports")),
        )

    def in_force(self, before: Reading, during: Reading) -> bool:
        """And nine of ten ports wait, none is reused, and the pile is kept up."""
        now = mapping(during, "ports")
        return (
            super().in_force(before, during)
            and numbers(now).get("waiting", 0) >= 0.9 * self.left
            and now.get("reuse") == "0"
            and now.get("running") is True
        )

    def clean(self, before: Reading, undone: Reading) -> bool:
        """What waits goes by itself; the settings are back, and nobody piles."""
        now = mapping(undone, "ports")
        same = bool(before.text("reuse")) and before.text("reuse") == now.get("reuse")
        return super().clean(before, undone) and same and now.get("running") is False

    def notes(self, before: Reading | None, during: Reading | None, after: Reading | None) -> tuple[str, ...]:
        """With the height of the pile."""
        waiting = numbers(mapping(after, "ports")).get("waiting")
        said = (
            [f"{waiting} sockets waited towards {self.address} port {self.remote_port}"] if waiting is not None else []
        )
        return (*said, *super().notes(before, during, after))

    def cannot_know(self) -> tuple[str, ...]:
        """What the pile does to the server."""
        return (
            "the server sees each connection of the pile open and close",
            "the kernel keeps a socket in TIME_WAIT for a minute, also after the undo; then it does no harm",
        )
