"""A network device administratively down, and up again with everything that it had."""

from __future__ import annotations

import socket
import struct
import time
from typing import Any

from stormcell.guest.tools import common
from stormcell.guest.tools.net import link, state
from stormcell.guest.tools.net.netlink import Netlink, attribute

_NEWLINK, _UP, _IFNAME = 16, 1, 3
_LINK = struct.Struct("=BxHiII")
_SETTLED_S = 2.0
_FILES = ("operstate", "carrier_changes", "carrier_up_count", "carrier_down_count", "statistics/tx_dropped")


def down(mark: str, *devices: str) -> dict[str, Any]:
    """Down, after what they have was written down. Raises ValueError when one is down already: it is not ours then."""
    kept: dict[str, Any] = {}
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        for device in devices:
            if not link.look(device).get("up"):
                raise ValueError(f"{device} is {'down already' if link.look(device) else 'not there'}")
            kept[device] = [state.dumped(entry) for entry in state.entries(kernel, device)]
        common.put_mark(mark, kept)
        for device in devices:
            _set(kernel, device, 0)
    return {"down": list(devices)}


def up(mark: str) -> dict[str, Any]:
    """Up, with the addresses, routes and neighbours that are missing. There need be nothing to do."""
    made: dict[str, list[str]] = {}
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        kept = common.get_mark(mark) or {}
        for device in kept:
            _set(kernel, device, _UP)
        for device, items in kept.items():
            wanted = [state.loaded(item) for item in items]
            _settle(kernel, device, {entry.name for entry in wanted})
            made[device] = state.put_back(kernel, device, wanted)
    common.drop_mark(mark)
    return {"put back": made}


def show(mark: str, *devices: str) -> dict[str, Any]:
    """Each device, what it has, and how often the kernel found no way out (IPv4, IPv6)."""
    found: dict[str, Any] = {}
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        for device in devices:
            told = link.look(device)
            if told:
                told |= {name.rpartition("/")[2]: _file(device, name) for name in _FILES}
                told["has"] = sorted(entry.name for entry in state.entries(kernel, device))
            found[device] = told
    return {"devices": found, "no_routes": _no_routes(), "ours": sorted(common.get_mark(mark) or {})}


def _set(kernel: Netlink, device: str, flags: int) -> None:
    kernel.ask(_NEWLINK, _LINK.pack(0, 0, 0, flags, _UP) + attribute(_IFNAME, device))


def _settle(kernel: Netlink, device: str, wanted: set[str]) -> None:
    """Wait for what the kernel makes by itself: its link-local address comes when the carrier is seen."""
    end = time.monotonic() + _SETTLED_S
    own = {name for name in wanted if name.startswith("address fe80:")}
    while time.monotonic() < end and not own <= {entry.name for entry in state.entries(kernel, device)}:
        time.sleep(0.01)


def _file(device: str, name: str) -> int | str:
    text = (common.read_text(f"{link.DEVICES}/{device}/{name}") or "").strip()
    return int(text) if text.isdigit() else text


def _no_routes() -> int:
    lines = (common.read_text("/proc/net/snmp") or "").splitlines()
    ip = [line.split() for line in lines if line.startswith("Ip:")]
    count = int(dict(zip(*ip, strict=True)).get("OutNoRoutes", 0)) if len(ip) == 2 else 0
    for line in (common.read_text("/proc/net/snmp6") or "").splitlines():
        if line.startswith("Ip6OutNoRoutes"):
            count += int(line.split()[1])
    return count


def main(argv: list[str]) -> int:
    """`down down|up|show`."""
    return common.serve("down", {"down": down, "up": up, "show": show}, argv)
