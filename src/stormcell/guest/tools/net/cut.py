"""Cut TCP connections that are established: the kernel resets both ends (INET_DIAG_DESTROY, as `ss -K` does)."""

from __future__ import annotations

import errno
import ipaddress
import socket
import struct
from typing import Any, NamedTuple

from stormcell.guest.tools import common
from stormcell.guest.tools.net.netlink import ACK, Netlink

# linux/inet_diag.h, linux/sock_diag.h
_SOCK_DIAG, _SOCK_DESTROY = 20, 21
_REQUEST = struct.Struct("=BBBxI")
_ID = 48
_STATES = {1: "ESTAB", 2: "SYN-SENT", 3: "SYN-RECV", 4: "FIN-WAIT-1", 5: "FIN-WAIT-2", 8: "CLOSE-WAIT", 9: "LAST-ACK"}
_OPEN = (1, 2, 3, 8)
_NETLINK_SOCK_DIAG = 4


class Connection(NamedTuple):
    """One socket, with the identity by which the kernel knows it."""

    family: int
    state: int
    local: str
    local_port: int
    remote: str
    remote_port: int
    id: bytes

    @property
    def text(self) -> str:
        """For a reader."""
        return f"{_end(self.local, self.local_port)} > {_end(self.remote, self.remote_port)} {_STATES.get(self.state)}"


def cut(mark: str, remote_port: str, local_port: str, *peers: str) -> dict[str, Any]:
    """Destroy every connection with these ports (0: any) and peers: addresses, networks, names (none: any).

    Raises LookupError for a name without an address, OSError when the kernel cannot destroy sockets.
    """
    networks = [network for peer in peers for network in _networks(peer)]
    done: list[str] = []
    gone: list[str] = []
    before = _resets()
    with Netlink(_NETLINK_SOCK_DIAG) as kernel:
        chosen = [c for c in _connections(kernel) if _chosen(c, int(remote_port), int(local_port), networks)]
        for one in chosen:
            try:
                body = _REQUEST.pack(one.family, socket.IPPROTO_TCP, 0, 1 << one.state) + one.id
                kernel.ask(_SOCK_DESTROY, body, ACK)
                done.append(one.text)
            except OSError as error:
                if error.errno != errno.ENOENT:
                    raise
                gone.append(one.text)
        asked = {one.id for one in chosen}  # with the kernel's cookie: who connects again is somebody else
        left = [one.text for one in _connections(kernel) if one.id in asked]
    told = {
        "destroyed": done,
        "ended before": gone,
        "left": left,
        "peers": sorted(str(network) for network in networks),
        "resets": _resets() - before,
    }
    common.put_mark(mark, told)
    return told


def show(mark: str) -> dict[str, Any]:
    """What was cut."""
    return {"cut": common.get_mark(mark)}


def forget(mark: str) -> None:
    """Nothing is undone: a connection that was reset is made anew by its owner."""
    common.drop_mark(mark)


def _connections(kernel: Netlink) -> list[Connection]:
    states = sum(1 << state for state in _OPEN)
    found = []
    for family in (socket.AF_INET, socket.AF_INET6):
        body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, states) + bytes(_ID)
        for message in kernel.dump(_SOCK_DIAG, body):
            state, identity = message.body[1], message.body[4 : 4 + _ID]
            local_port, remote_port = struct.unpack_from("!HH", identity)
            ends = [_address(family, identity[at : at + 16]) for at in (4, 20)]
            found.append(Connection(family, state, ends[0], local_port, ends[1], remote_port, identity))
    return found


def _chosen(one: Connection, remote_port: int, local_port: int, networks: list[Any]) -> bool:
    if (remote_port and one.remote_port != remote_port) or (local_port and one.local_port != local_port):
        return False
    address = ipaddress.ip_address(one.remote)
    return not networks or any(address in network for network in networks)


def _networks(peer: str) -> list[Any]:
    try:
        return [ipaddress.ip_network(peer)]
    except ValueError:
        pass
    try:
        found = socket.getaddrinfo(peer, None, type=socket.SOCK_STREAM)
    except OSError:
        found = []
    if not found:
        raise LookupError(f"'{peer}' has no address in the guest")
    return [ipaddress.ip_network(str(address[0]).partition("%")[0]) for *_, address in found]


def _address(family: int, packed: bytes) -> str:
    text = socket.inet_ntop(family, packed[: 4 if family == socket.AF_INET else 16])
    return text.removeprefix("::ffff:") if "." in text else text


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def _resets() -> int:
    """Connections that the kernel took from ESTABLISHED or CLOSE-WAIT to CLOSE (EstabResets)."""
    rows = [line.split() for line in (common.read_text("/proc/net/snmp") or "").splitlines() if line.startswith("Tcp:")]
    return int(dict(zip(*rows, strict=True)).get("EstabResets", 0)) if len(rows) == 2 else 0


def main(argv: list[str]) -> int:
    """`cut cut|show|forget`."""
    return common.serve("cut", {"cut": cut, "show": show, "forget": forget}, argv)
