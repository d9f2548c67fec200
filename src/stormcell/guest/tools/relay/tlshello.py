"""The first message of a TLS client (RFC 8446, 4.1.2): enough to know it for one, and the name that it wants."""

from __future__ import annotations

from dataclasses import dataclass

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_SERVER_NAME, _HOST_NAME = 0, 0
LARGEST = 1 << 16


@dataclass(frozen=True)
class Hello:
    """A client that wants TLS; `name` in lower case, empty when it named no server."""

    name: str


def read(data: bytes) -> Hello | bool:
    """The hello in the first bytes of a connection; True when more bytes are needed, False when it is no TLS."""
    message = b""
    while True:
        if len(data) < 5:
            return not data or (data[0] == _HANDSHAKE and data[1:2] in (b"", b"\x03"))
        if data[0] != _HANDSHAKE or data[1] != 3:
            return False
        length = int.from_bytes(data[3:5], "big")
        message, data, whole = message + data[5 : 5 + length], data[5 + length :], len(data) >= 5 + length
        if message and message[0] != _CLIENT_HELLO:
            return False
        if len(message) >= 4 and len(message) >= 4 + int.from_bytes(message[1:4], "big"):
            return Hello(_name(message[4 : 4 + int.from_bytes(message[1:4], "big")]))
        if not whole or len(message) > LARGEST:
            return not whole


def _name(body: bytes) -> str:
    at = 34  # version and random
    for width in (1, 2, 1):  # session, cipher suites, compression methods
        at += width + int.from_bytes(body[at : at + width], "big")
    at += 2
    while at + 4 <= len(body):
        kind, length = int.from_bytes(body[at : at + 2], "big"), int.from_bytes(body[at + 2 : at + 4], "big")
        content = body[at + 4 : at + 4 + length]
        if kind == _SERVER_NAME and len(content) > 5 and content[2] == _HOST_NAME:
            size = int.from_bytes(content[3:5], "big")
            return content[5 : 5 + size].decode("ascii", "replace").lower().rstrip(".")
        at += 4 + length
    return ""
