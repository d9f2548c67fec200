"""The kernel's table of connections by netlink: where a redirected datagram was going, and forgetting entries.

SO_ORIGINAL_DST answers for TCP alone (nf_conntrack_proto.c, getorigdst), so for UDP the entry itself is asked for.
linux/netfilter/nfnetlink_conntrack.h has the numbers.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

NETLINK_NETFILTER = 12
_GET, _DELETE = (1 << 8) | 1, (1 << 8) | 2  # NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_*
_REQUEST, _ACK, _DUMP = 1, 4, 0x300
_ERROR, _DONE = 2, 3
_NESTED = 0x8000
_ORIGINAL, _REPLY = 1, 2
_IP, _PROTO = 1, 2
_HEADER = struct.Struct("=IHHII")
_WAIT_S = 1.0

Address = tuple[str, int]
Tuple = tuple[int, Address, Address]
"""Protocol number, source, destination."""


class Conntrack:
    """One netlink socket. Raises OSError when the kernel has no such table."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER)
        self._socket.settimeout(_WAIT_S)
        self._sequence = 0

    def close(self) -> None:
        """The socket."""
        self._socket.close()

    def original(self, protocol: int, here: Address, peer: Address) -> Address | None:
        """Where `peer` sent what arrived at `here`, None when the kernel knows of no such flow."""
        wanted = _attribute(_REPLY, _tuple(protocol, here, peer), nested=True)
        for entry in self._ask(_GET, _ACK, _family(here[0]), wanted):
            if (found := parse(entry).get(_ORIGINAL)) is not None:
                return found[2]
        return None

    def forget_redirected(self, port: int) -> int:
        """Delete every entry whose replies come from a local `port` though its packets were for another."""
        count = 0
        for family in (socket.AF_INET, socket.AF_INET6):
            for entry in list(self._ask(_GET, _DUMP, family, b"")):
                tuples = parse(entry)
                there, back = tuples.get(_ORIGINAL), tuples.get(_REPLY)
                if there and back and back[1][1] == port and there[2] != back[1]:
                    named = _attribute(_ORIGINAL, _tuple(*there), nested=True)
                    list(self._ask(_DELETE, _ACK, family, named))
                    count += 1
        return count

    def _ask(self, kind: int, flags: int, family: int, body: bytes) -> Iterator[bytes]:
        self._sequence += 1
        body = struct.pack("=BBH", family, 0, 0) + body
        head = _HEADER.pack(_HEADER.size + len(body), kind, _REQUEST | flags, self._sequence, 0)
        self._socket.send(head + body)
        while True:
            data = self._socket.recv(1 << 17)
            while len(data) >= _HEADER.size:
                length, kind_of, _, sequence, _ = _HEADER.unpack_from(data)
                if not _HEADER.size <= length <= len(data):
                    return
                message, data = data[_HEADER.size : length], data[(length + 3) & ~3 :]
                if sequence != self._sequence:
                    continue
                if kind_of in (_ERROR, _DONE):
                    return
                yield message[4:]


def parse(entry: bytes) -> dict[int, Tuple]:
    """The tuples of an entry by direction."""
    found = {}
    for kind, value in _attributes(entry):
        if kind in (_ORIGINAL, _REPLY):
            parts = dict(_attributes(value))
            ip, proto = dict(_attributes(parts.get(_IP, b""))), dict(_attributes(parts.get(_PROTO, b"")))
            source, destination = (ip.get(kind, ip.get(kind + 2, b"")) for kind in (1, 2))
            if len(source) in (4, 16) and len(source) == len(destination) and 2 in proto and 3 in proto:
                ports = [int.from_bytes(proto[number], "big") for number in (2, 3)]
                found[kind] = (
                    int.from_bytes(proto.get(1, b"\0"), "big"),
                    (_text(source), ports[0]),
                    (_text(destination), ports[1]),
                )
    return found


def _tuple(protocol: int, source: Address, destination: Address) -> bytes:
    first = 1 if _family(source[0]) == socket.AF_INET else 3
    packed = [socket.inet_pton(_family(address), address) for address, _ in (source, destination)]
    ip = _attribute(first, packed[0]) + _attribute(first + 1, packed[1])
    ports = _attribute(2, struct.pack(">H", source[1])) + _attribute(3, struct.pack(">H", destination[1]))
    proto = _attribute(1, bytes([protocol])) + ports
    return _attribute(_IP, ip, nested=True) + _attribute(_PROTO, proto, nested=True)


def _attribute(kind: int, value: bytes, *, nested: bool = False) -> bytes:
    padding = b"\0" * (-len(value) % 4)
    return struct.pack("=HH", 4 + len(value), kind | (_NESTED if nested else 0)) + value + padding


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 4:
        length, kind = struct.unpack_from("=HH", data)
        if length < 4:
            return
        yield kind & 0x3FFF, data[4:length]
        data = data[(length + 3) & ~3 :]


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _text(packed: bytes) -> str:
    return socket.inet_ntop(socket.AF_INET if len(packed) == 4 else socket.AF_INET6, packed)
