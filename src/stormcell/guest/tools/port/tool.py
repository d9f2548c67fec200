"""`stormcell-guest ports`: take the local ports from which connections are made, and count who is refused one.

What a connection leaves from is chosen by the kernel from net.ipv4.ip_local_port_range, without those of
ip_local_reserved_ports (Documentation/networking/ip-sysctl.rst): so a reserved port is as good as one in use.
"""

from __future__ import annotations

import errno
import socket
import struct
import time
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import background, common, counters, refusals

SYSCTL = "/proc/sys/net/ipv4"
RANGE, RESERVED, REUSE = f"{SYSCTL}/ip_local_port_range", f"{SYSCTL}/ip_local_reserved_ports", f"{SYSCTL}/tcp_tw_reuse"
EVENT = "raw_syscalls/sys_exit"
_CONNECT, _BIND = 42, 49  # x86-64
_REFUSED = (
    f"(id == {_CONNECT} && (ret == -{errno.EADDRNOTAVAIL} || ret == -{errno.EAGAIN})) || "
    f"(id == {_BIND} && ret == -{errno.EADDRINUSE})"
)
_CALLS = {
    (_CONNECT, -errno.EADDRNOTAVAIL): "connect EADDRNOTAVAIL",
    (_CONNECT, -errno.EAGAIN): "connect EAGAIN",
    (_BIND, -errno.EADDRINUSE): "bind EADDRINUSE",
}
_WAITING = ("05", "06")  # FIN_WAIT2, which waits as TIME_WAIT does, and TIME_WAIT: include/net/tcp_states.h
AGAIN_S = 0.2


def reserve(fault: str, leave: str) -> dict[str, Any]:
    """Reserve every port of the range but the last `leave`, beside those that are reserved, and begin to count."""
    counters.start(_counter(fault), EVENT, "common_pid.execname,id,ret", _REFUSED)
    return change(fault, leave)


def change(fault: str, leave: str) -> dict[str, Any]:
    """Another number of ports. What the user had reserved is in the mark from the first time."""
    mark = common.get_mark(_mark(fault))
    old = mark["old"] if mark else (common.read_text(RESERVED) or "").strip()
    common.put_mark(_mark(fault), {"old": old})
    low, high = _range()
    last = high - int(leave)
    if last < low:
        raise ValueError(f"the range {low}-{high} has {high - low + 1} ports; fewer than {leave} are to be left")
    write_file(RESERVED, ",".join(part for part in (old, f"{low}-{last}") if part) + "\n")
    return {"reserved": common.read_text(RESERVED)}


def pile(fault: str, host: str, port: str, count: str) -> dict[str, Any]:
    """Leave `count` ports, and fill them with connections to one server that are closed at once, again and again."""
    wanted = int(count)
    with socket.create_connection((host, int(port)), 5):
        pass
    reserve(fault, count)
    write_file(REUSE, "0\n")
    refusals.call_me("pile")
    deadline = time.monotonic() + 2 + wanted * 0.02
    tries = 0
    while _one(host, int(port)):
        tries += 1
        if time.monotonic() > deadline or tries > 4 * wanted:
            raise ValueError(
                f"{tries} connections to {host} port {port} were closed, and {waiting(host, int(port))} of them wait: "
                "the server closes first, or accepts too slowly"
            )
    background.start(fault, lambda: _keep(host, int(port)), lambda request: True)
    return {"waiting": waiting(host, int(port))}


def _keep(host: str, port: int) -> None:
    while True:
        while _one(host, port):
            pass
        time.sleep(AGAIN_S)


def _one(host: str, port: int) -> bool:
    """Open and close a connection. False when there was no port for it, or no server."""
    try:
        with socket.create_connection((host, port), 2):
            return True
    except OSError:
        return False


def restore(fault: str, reserved: str, reuse: str = "") -> None:
    """As it was. What waits ends by itself within a minute."""
    background.stop(fault)
    counters.stop(_counter(fault), (EVENT,))
    write_file(RESERVED, f"{reserved}\n")
    if reuse:
        write_file(REUSE, f"{reuse}\n")
    common.drop_mark(_mark(fault))


def show(fault: str, host: str = "", port: str = "0") -> dict[str, Any]:
    """The range, what is reserved of it, what waits towards the server, and who was refused how often."""
    low, high = _range()
    entries = counters.read(_counter(fault), EVENT)
    refused: dict[str, dict[str, int]] = {}
    for entry in entries or []:
        call = _CALLS.get((int(entry.get("id", 0)), int(entry.get("ret", 0))))
        process = entry.get("process", refusals.OURS)
        if call and not process.startswith(refusals.OURS):
            calls = refused.setdefault(call, {})
            calls[process] = calls.get(process, 0) + int(entry["hitcount"])
    return {
        "range": [low, high],
        "reserved": (common.read_text(RESERVED) or "").strip(),
        "reuse": (common.read_text(REUSE) or "").strip(),
        "waiting": waiting(host, int(port)) if host else None,
        "running": background.ask(fault, {}) is True if host else None,
        "counting": entries is not None,
        "refused": refused,
    }


def waiting(host: str, port: int) -> int:
    """Sockets here that wait after a connection to this server."""
    peer = f"{_hex(host)}:{port:04X}"
    text = common.read_text(f"/proc/net/tcp{'6' if ':' in host else ''}") or ""
    rows = [line.split() for line in text.splitlines()]
    return sum(len(row) > 3 and row[2] == peer and row[3] in _WAITING for row in rows)


def _hex(host: str) -> str:
    """As /proc/net/tcp writes addresses: words of the machine's byte order."""
    packed = socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    return "".join(f"{word:08X}" for word in struct.unpack(f"={len(packed) // 4}I", packed))


def _range() -> tuple[int, int]:
    low, high = (common.read_text(RANGE) or "0 0").split()
    return int(low), int(high)


def _counter(fault: str) -> str:
    return f"{fault}-ports"


def _mark(fault: str) -> str:
    return f"{fault}.ports"


def main(argv: list[str]) -> int:
    """`ports reserve|change|pile|restore|show`."""
    verbs: dict[str, common.Verb] = {
        "reserve": reserve,
        "change": change,
        "pile": pile,
        "restore": restore,
        "show": show,
    }
    return common.serve("ports", verbs, argv)
