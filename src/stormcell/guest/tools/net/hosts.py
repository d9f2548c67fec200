"""What host names mean, kept in the nft sets of a fault's table while the fault is in force."""

from __future__ import annotations

import socket
import sys
import time
from typing import Any

from stormcell.guest.tools import background, common
from stormcell.guest.tools.net.nft import nft

EVERY_S = 1.0
SETS = {socket.AF_INET: "host_ip", socket.AF_INET6: "host_ip6"}
Meant = dict[str, list[str]]


def watch(fault: str, family: str, table: str, *names: str) -> dict[str, Any]:
    """Look the names up, make the table on standard input with what they mean, and go on looking.

    Raises LookupError for a name that means nothing: nothing is made then.
    """
    script = sys.stdin.read()
    meant = {name: sorted(_look_up(name)) for name in names}
    for name, found in meant.items():
        if not found:
            raise LookupError(f"'{name}' has no address in the guest")
    nft(script + _elements(family, table, {address for found in meant.values() for address in found}))
    background.start(fault, lambda: _go_on(family, table, meant), lambda _: meant)
    return {"names": meant}


def _go_on(family: str, table: str, meant: Meant) -> None:
    """Until the table is gone."""
    while True:
        time.sleep(EVERY_S)
        new = set()
        for name, known in meant.items():
            fresh = _look_up(name) - set(known)
            meant[name] = known + sorted(fresh)
            new |= fresh
        if new:
            nft(_elements(family, table, new))


def _look_up(name: str) -> set[str]:
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(address[0]).partition("%")[0] for family, _, _, _, address in found if family in SETS}


def _elements(family: str, table: str, addresses: set[str]) -> str:
    lines = []
    for which, name in SETS.items():
        mine = sorted(one for one in addresses if (":" in one) == (which == socket.AF_INET6))
        if mine:
            lines.append(f"add element {family} {table} {name} {{ {', '.join(mine)} }}\n")
    return "".join(lines)


def show(fault: str) -> dict[str, Any]:
    """What each name meant so far, and whether it is still looked up."""
    meant = background.ask(fault, {})
    return {"names": meant or {}, "watcher": meant is not None, "left": background.is_there(fault)}


def stop(fault: str) -> None:
    """End the watcher; there need not be one."""
    background.stop(fault)


def main(argv: list[str]) -> int:
    """`hosts watch|show|stop`."""
    return common.serve("hosts", {"watch": watch, "show": show, "stop": stop}, argv)
