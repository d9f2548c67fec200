"""The frames that cross an agent port, as pure functions: both ends use this file and neither does any I/O here.

    magic b"SC" | kind u8 | stream u32 | length u32 | payload        (big endian)

A stream is one request and everything that belongs to it; the host chooses its number and never uses it twice on a
connection. Data is paid for with credit, per stream and kind, so that a slow reader of one stream stops only that one.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, NamedTuple

VERSION = 1
MAGIC = b"SC"
HEADER = struct.Struct(">2sBII")
MAX_PAYLOAD = 64 * 1024
MAX_STREAM = 2**32 - 1
OUTPUT_WINDOW = 1024 * 1024
"""Bytes that the guest may send for one stream and kind before the host has to grant more."""
INPUT_WINDOW = 256 * 1024
"""The same towards the guest, whose memory is the scarcer."""


# made once, and asked for no white space around the value: the guest spares a third of what a message costs it
_encode = json.JSONEncoder(separators=(",", ":")).encode
_decode = json.JSONDecoder().raw_decode


class WireError(Exception):
    """Bytes that no correct peer sends."""


class Kind(IntEnum):
    """What a frame is. HELLO and WELCOME carry a nonce in place of a stream number."""

    HELLO = 1
    WELCOME = 2
    REQUEST = 3
    STARTED = 4
    FINAL = 5
    INPUT = 6
    OUTPUT = 7
    ERRORS = 8
    CREDIT = 9
    SIGNAL = 10
    CANCEL = 11


TO_GUEST = frozenset({Kind.HELLO, Kind.REQUEST, Kind.INPUT, Kind.CREDIT, Kind.SIGNAL, Kind.CANCEL})
TO_HOST = frozenset({Kind.WELCOME, Kind.STARTED, Kind.FINAL, Kind.OUTPUT, Kind.ERRORS, Kind.CREDIT})
DATA = frozenset({Kind.INPUT, Kind.OUTPUT, Kind.ERRORS})
"""Raw bytes; an empty payload is the end of that direction."""


class Frame(NamedTuple):
    """One decoded frame."""

    kind: Kind
    stream: int
    payload: bytes


def encode(kind: Kind, stream: int, payload: bytes = b"") -> bytes:
    """The bytes of one frame. Raises WireError when the payload is over MAX_PAYLOAD."""
    if len(payload) > MAX_PAYLOAD:
        raise WireError(f"a payload of {len(payload)} bytes is over the limit of {MAX_PAYLOAD}")
    return HEADER.pack(MAGIC, kind, stream, len(payload)) + payload


def pack(message: Mapping[str, Any]) -> bytes:
    """A control payload. Bytes that are no UTF-8 travel as lone surrogates (os.fsdecode), escaped to ASCII."""
    return _encode(message).encode("ascii")


def unpack(payload: bytes) -> dict[str, Any]:
    """The object in a control payload. Raises WireError."""
    try:
        text = payload.decode()
        message, end = _decode(text)
        if end != len(text):
            raise ValueError(f"more follows at {end}")
    except (ValueError, RecursionError) as error:
        raise WireError(f"a control payload is no JSON ({error})") from None
    if not isinstance(message, dict):
        raise WireError("a control payload is no JSON object")
    return message


_CREDIT = struct.Struct(">BI")


def pack_credit(kind: Kind, amount: int) -> bytes:
    """`amount` more bytes of `kind` may be sent."""
    return _CREDIT.pack(kind, amount)


def unpack_credit(payload: bytes) -> tuple[Kind, int]:
    """The kind and the number of bytes granted. Raises WireError."""
    if len(payload) != _CREDIT.size:
        raise WireError(f"a credit of {len(payload)} bytes")
    kind, amount = _CREDIT.unpack(payload)
    if kind not in DATA:
        raise WireError(f"credit for frames of kind {kind}")
    return Kind(kind), amount


class Decoder:
    """Bytes in, frames out, whatever the pieces. Holds less than one frame.

    `resync=False` (the host) raises WireError at the first byte that is no frame. `resync=True` (the guest) skips to
    the next thing that looks like one, since a new connection may follow a torn one.
    """

    def __init__(self, kinds: frozenset[Kind], *, resync: bool) -> None:
        self._kinds = kinds
        self._resync = resync
        self._held = bytearray()

    def clear(self) -> None:
        """Forget a frame that will not be completed."""
        self._held.clear()

    def feed(self, data: bytes | memoryview) -> Iterator[Frame]:
        """Every frame that is complete now. Consume it wholly: what is left undecoded waits in memory."""
        held = self._held
        held += data
        at = 0
        try:
            while len(held) - at >= HEADER.size:
                magic, kind, stream, length = HEADER.unpack_from(held, at)
                if magic != MAGIC or kind not in self._kinds or length > MAX_PAYLOAD:
                    if not self._resync:
                        raise WireError(f"no frame begins with {bytes(held[at : at + HEADER.size]).hex()}")
                    found = held.find(MAGIC, at + 1)
                    at = found if found >= 0 else len(held) - (held[-1] == MAGIC[0])
                    continue
                end = at + HEADER.size + length
                if end > len(held):
                    break
                payload = bytes(memoryview(held)[at + HEADER.size : end])
                at = end
                yield Frame(Kind(kind), stream, payload)
        finally:
            del held[:at]


class Allowance:
    """What a sender may still send of one stream and kind."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.left = window

    def take(self, amount: int) -> None:
        """`amount` bytes are being sent. Raises WireError when they were not granted."""
        if amount > self.left:
            raise WireError(f"{amount} bytes to send, {self.left} allowed")
        self.left -= amount

    def grant(self, amount: int) -> None:
        """The peer made room. Raises WireError for more room than the window has."""
        if amount > self.window - self.left:
            raise WireError(f"a credit of {amount} bytes, of {self.window - self.left} sent")
        self.left += amount


class Intake:
    """What a receiver has taken in of one stream and kind, and when it is worth granting more."""

    def __init__(self, window: int) -> None:
        self.window = window
        self._open = window
        self._used = 0

    def received(self, amount: int) -> None:
        """Bytes arrived. Raises WireError when the peer sent more than it was granted."""
        if amount > self._open:
            raise WireError(f"{amount} bytes arrived, {self._open} were granted")
        self._open -= amount

    def consumed(self, amount: int) -> int:
        """Bytes were used up. Returns the credit to send now: 0 until a quarter of the window is free again."""
        self._used += amount
        if self._used < self.window // 4:
            return 0
        grant, self._used = self._used, 0
        self._open += grant
        return grant
