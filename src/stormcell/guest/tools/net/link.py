"""Network devices of a fault's own: made, listed with what they counted, and taken away when they are empty."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import time
from typing import Any

from stormcell.guest import nodes
from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common
from stormcell.guest.tools.net import qdiscs
from stormcell.guest.tools.net.netlink import CREATE, EXCL, Netlink, attribute, attributes, nested

DEVICES = "/sys/class/net"
COUNTERS = ("rx_packets", "rx_dropped", "tx_packets", "tx_dropped")
_NEWLINK, _DELLINK, _GETQDISC = 16, 17, 38  # linux/rtnetlink.h
_UP = 1
_IFNAME, _LINKINFO, _INFO_KIND = 3, 18, 1
_QUEUE, _STATS2 = 3, 7  # TCA_STATS_QUEUE, TCA_STATS2
_POLL_S = 0.01
_LINK = struct.Struct("=BxHiII")
_NO_DEVICE = 19


def make(devices: str, kind: str, *names: str) -> dict[str, Any]:
    """New devices of this kind, up, without IPv6 of their own: nothing but a fault's packets crosses them.

    Fails when one of that name is there, or one of `devices` (`lo,eth0`), for which they are made, is not.
    """
    for device in devices.split(","):
        if not os.path.isdir(f"{DEVICES}/{device}"):
            raise LookupError(
                f"there is no network device '{device}'; there are {', '.join(sorted(os.listdir(DEVICES)))}"
            )
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        for name in names:
            named = attribute(_IFNAME, name)
            try:
                body = _LINK.pack(0, 0, 0, 0, 0) + named + nested(_LINKINFO, attribute(_INFO_KIND, kind))
                kernel.ask(_NEWLINK, body, CREATE | EXCL)
            except OSError as error:
                raise OSError(
                    error.errno, f"a device '{name}' of kind {kind} cannot be made: {error.strerror}"
                ) from None
            try:
                write_file(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "1")
            except FileNotFoundError:
                pass  # a kernel without IPv6
            kernel.ask(_NEWLINK, _LINK.pack(0, 0, 0, _UP, _UP) + named)
    return {"made": list(names)}


def release(seconds: str, *names: str) -> dict[str, Any]:
    """Wait at most so long until nothing waits in their queues, then take the devices away. They may be gone.

    Answers how many packets were still waiting in each: they are lost.
    """
    end = time.monotonic() + float(seconds)
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        while (waiting := _waiting(kernel, names)) and time.monotonic() < end:
            time.sleep(_POLL_S)
        for name in names:
            try:
                kernel.ask(_DELLINK, _LINK.pack(0, 0, 0, 0, 0) + attribute(_IFNAME, name))
            except OSError as error:
                if error.errno != _NO_DEVICE:
                    raise
    return {"lost": waiting}


def _waiting(kernel: Netlink, names: tuple[str, ...]) -> dict[str, int]:
    indices = {}
    for name in names:
        try:
            indices[socket.if_nametoindex(name)] = name
        except OSError:
            continue
    found: dict[str, int] = {}
    for message in kernel.dump(_GETQDISC, struct.pack("=BxxxiIII", 0, 0, 0, 0, 0)) if indices else ():
        index = struct.unpack_from("=i", message.body, 4)[0]
        queue = attributes(attributes(message.body[20:]).get(_STATS2, b"")).get(_QUEUE, b"")
        if index in indices and len(queue) >= 4 and (length := struct.unpack_from("=I", queue)[0]):
            found[indices[index]] = found.get(indices[index], 0) + length
    return found


def listing() -> dict[str, Any]:
    """Every device: whether it is up, and its packet counters (an ifb counts what left its queue as received)."""
    return {name: one for name in sorted(os.listdir(DEVICES)) if (one := look(name))}


def look(name: str) -> dict[str, Any]:
    """One device, {} when it is not there."""
    try:
        with open(f"{DEVICES}/{name}/flags", encoding="ascii") as file:
            flags = int(file.read(), 16)
        return {"up": bool(flags & _UP), **{one: _number(f"{name}/statistics/{one}") for one in COUNTERS}}
    except OSError:
        return {}


def _number(path: str) -> int:
    with open(f"{DEVICES}/{path}", encoding="ascii") as file:
        return int(file.read())


def hook(device: str, pref: str) -> dict[str, Any]:
    """Let the packets of an ifb that come back to `device` be seen by its ingress hook again.

    drivers/net/ifb.c marks what it sends (`tc_skip_classify`), and only an action on the way takes the mark off. On
    a loopback device the packet would else pass the ingress hook unseen.
    """
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        try:
            qdiscs.add_clsact(kernel, device)
            made = True
            common.put_mark(_mark(device), True)
        except FileExistsError:
            made = False
            if not qdiscs.has_clsact(kernel, device):  # an `ingress` qdisc has the same handle and no way out
                raise ValueError(
                    f"{device} has an ingress qdisc of somebody else, beside which no hook for both ways fits"
                ) from None
        qdiscs.add_pass(kernel, device, "egress", int(pref))
    return {"hook": device, "made": made}


def unhook(device: str, pref: str) -> dict[str, Any]:
    """Undo `hook`; the hook itself goes when we made it and nothing else uses it."""
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        if not qdiscs.has_clsact(kernel, device):
            common.drop_mark(_mark(device))
            return {"free": False}
        with contextlib.suppress(OSError):
            qdiscs.remove_filter(kernel, device, "egress", int(pref))
        free = not any(qdiscs.filters(kernel, device, way) for way in ("ingress", "egress"))
        if common.get_mark(_mark(device)) and free:
            with contextlib.suppress(OSError):
                qdiscs.remove_clsact(kernel, device)
            common.drop_mark(_mark(device))
    return {"free": free}


def _mark(device: str) -> str:
    return f"hook-{nodes.current() or ''}-{device}"


def main(argv: list[str]) -> int:
    """`link make|release|list|hook|unhook`."""
    verbs: dict[str, common.Verb] = {"make": make, "release": release, "list": listing, "hook": hook, "unhook": unhook}
    return common.serve("link", verbs, argv)
