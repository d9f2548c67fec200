"""The one way in: TCP ports of 127.0.0.1 that QEMU's user network forwards into the guest. There is no way out."""

from __future__ import annotations

import re
from collections.abc import Iterable

from stormcell.machine.model import Forward
from stormcell.spec.errors import HostError, PortTaken

_HOST_FORWARD = re.compile(r"^\s*TCP\[HOST_FORWARD\]\s+\d+\s+127\.0\.0\.1\s+(\d+)\s+\S+\s+(\d+)\s", re.MULTILINE)
_REFUSED = re.compile(r"Could not set up host forwarding rule 'tcp:127\.0\.0\.1:(\d+)-")


def real_ports(usernet: str, forwards: Iterable[Forward]) -> dict[str, int]:
    """Forward name -> host port, from the answer to `info usernet`. Raises KeyError when one is not there."""
    by_guest: dict[int, list[int]] = {}
    for host, guest in _HOST_FORWARD.findall(usernet):
        by_guest.setdefault(int(guest), []).append(int(host))
    ports = {}
    for forward in sorted(forwards, key=lambda f: -f.host_port):  # those that ask for one port choose first
        candidates = by_guest.get(forward.guest_port, [])
        port = forward.host_port if forward.host_port in candidates else candidates[0]
        candidates.remove(port)
        ports[forward.name] = port
    return ports


def refused_port(log: str) -> HostError | None:
    """The error behind QEMU's own words when it could not bind a forward; None when that is not why it ended."""
    match = _REFUSED.search(log)
    if match is None:
        return None
    port = int(match[1])
    if 0 < port < 1024:
        remedy = "choose a port above 1023, or leave it out and take the one that is given"
    else:
        remedy = "choose another host port, or leave it out and take any free one"
    return PortTaken(f"host port {port} on 127.0.0.1 cannot be used; another program listens on it", remedy=remedy)
