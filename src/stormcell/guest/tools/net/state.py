"""What a link loses when it goes down, as the kernel lists it: addresses, routes and neighbours that were set by hand.

Each is kept as the message itself and put back as that, so that nothing in it is lost.
"""

from __future__ import annotations

import base64
import errno
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from stormcell.guest.tools.net.netlink import CREATE, EXCL, Message, Netlink, attribute, attributes

# linux/rtnetlink.h, linux/if_addr.h, linux/neighbour.h
_ADDRESS, _ROUTE, _NEIGHBOUR = 20, 24, 28
_GET = {_ADDRESS: 22, _ROUTE: 26, _NEIGHBOUR: 30}
_HEADS = {
    _ADDRESS: struct.Struct("=BBBBi"),
    _ROUTE: struct.Struct("=BBBBBBBBI"),
    _NEIGHBOUR: struct.Struct("=BxxxiHBB"),
}
_IFA_ADDRESS, _IFA_LOCAL, _IFA_CACHEINFO, _IFA_FLAGS = 1, 2, 6, 8
_RTA_DST, _RTA_OIF, _RTA_GATEWAY, _RTA_PRIORITY, _RTA_CACHEINFO, _RTA_TABLE = 1, 4, 5, 6, 12, 15
_NDA_DST, _NDA_CACHEINFO = 1, 3
_NODAD, _TENTATIVE, _NUD_PERMANENT, _LOCAL_TABLE, _BY_KERNEL, _UNICAST, _ONLINK = 0x02, 0x40, 0x80, 255, 2, 1, 4


class Entry(NamedTuple):
    """One of them: its kind, a text that names it, and the message that makes it."""

    kind: int
    name: str
    body: bytes
    by_kernel: bool


def entries(kernel: Netlink, device: str) -> list[Entry]:
    """All of the device. Raises OSError when it is not there."""
    index = socket.if_nametoindex(device)
    found = []
    for kind, get in _GET.items():
        for message in kernel.dump(get, bytes(_HEADS[kind].size)):
            if message.kind == kind and (entry := _entry(message, index)) is not None:
                found.append(entry)
    return found


def put_back(kernel: Netlink, device: str, kept: list[Entry]) -> list[str]:
    """Make those that are missing, in as many passes as routes through other routes need. Answers what it made."""
    made: list[str] = []
    for _ in range(3):
        there = {entry.name for entry in entries(kernel, device)}
        missing = [entry for entry in kept if entry.name not in there and not _made_anew(entry)]
        failed: list[str] = []
        for entry in missing:
            try:
                kernel.ask(entry.kind, entry.body, CREATE | EXCL)
                made.append(entry.name)
            except OSError as error:
                if error.errno != errno.EEXIST:
                    failed.append(f"{entry.name}: {error.strerror}")
        if not failed:
            return made
    raise ValueError(f"it cannot be put back: {'; '.join(failed)}")


def _made_anew(entry: Entry) -> bool:
    """The kernel makes its own routes when an address comes."""
    return entry.kind == _ROUTE and entry.by_kernel


def dumped(entry: Entry) -> list[str | int | bool]:
    """For JSON."""
    return [entry.kind, entry.name, base64.b64encode(entry.body).decode(), entry.by_kernel]


def loaded(item: list[str | int | bool]) -> Entry:
    """Of `dumped`."""
    kind, name, body, by_kernel = item
    return Entry(int(kind), str(name), base64.b64decode(str(body)), bool(by_kernel))


def _entry(message: Message, index: int) -> Entry | None:
    head = _HEADS[message.kind]
    fields = head.unpack_from(message.body)
    given = attributes(message.body[head.size :])
    if message.kind == _ADDRESS:
        return _address(fields, given) if fields[4] == index else None
    if message.kind == _NEIGHBOUR:
        kept = fields[1] == index and fields[2] & _NUD_PERMANENT
        return _neighbour(message, fields, given) if kept else None
    oif = struct.unpack("=I", given[_RTA_OIF])[0] if _RTA_OIF in given else 0
    table = struct.unpack("=I", given[_RTA_TABLE])[0] if _RTA_TABLE in given else fields[4]
    if oif != index or table == _LOCAL_TABLE or fields[7] != _UNICAST:
        return None
    return _route(fields, given, table)


def _address(fields: tuple[int, ...], given: dict[int, bytes]) -> Entry:
    family, length, flags, scope, index = fields
    own = given.get(_IFA_LOCAL, given.get(_IFA_ADDRESS, b""))
    all_flags = struct.unpack("=I", given[_IFA_FLAGS])[0] if _IFA_FLAGS in given else flags
    given[_IFA_FLAGS] = struct.pack("=I", (all_flags | _NODAD) & ~_TENTATIVE)  # it was proven unique before
    body = _HEADS[_ADDRESS].pack(family, length, flags & 0xFF & ~_TENTATIVE, scope, index)
    return Entry(_ADDRESS, f"address {_text(family, own)}/{length}", body + _packed(given, _IFA_CACHEINFO), False)


def _route(fields: tuple[int, ...], given: dict[int, bytes], table: int) -> Entry:
    family, length, source, tos, _, protocol, scope, kind, flags = fields
    place = _text(family, given[_RTA_DST]) if _RTA_DST in given else "default"
    via = f" via {_text(family, given[_RTA_GATEWAY])}" if _RTA_GATEWAY in given else ""
    metric = f" metric {struct.unpack('=I', given[_RTA_PRIORITY])[0]}" if _RTA_PRIORITY in given else ""
    name = f"route {'IPv6 ' if family == socket.AF_INET6 else ''}{place}/{length}{via}{metric} table {table}"
    body = _HEADS[_ROUTE].pack(
        family, length, source, tos, fields[4], protocol, scope, kind, flags & _ONLINK
    ) + _packed(given, _RTA_CACHEINFO)
    return Entry(_ROUTE, name, body, protocol == _BY_KERNEL)


def _neighbour(message: Message, fields: tuple[int, ...], given: dict[int, bytes]) -> Entry:
    head = message.body[: _HEADS[_NEIGHBOUR].size]
    name = f"neighbour {_text(fields[0], given.get(_NDA_DST, b''))}"
    return Entry(_NEIGHBOUR, name, head + _packed(given, _NDA_CACHEINFO), False)


def _packed(given: dict[int, bytes], without: int) -> bytes:
    return b"".join(_attributes(given, without))


def _attributes(given: dict[int, bytes], without: int) -> Iterator[bytes]:
    for kind, value in given.items():
        if kind != without:
            yield attribute(kind, value)


def _text(family: int, address: bytes) -> str:
    try:
        return socket.inet_ntop(family, address)
    except ValueError:
        return address.hex()
