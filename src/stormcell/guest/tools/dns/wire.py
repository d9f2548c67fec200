"""As much of the DNS wire format (RFC 1035) as it takes to know a question and to answer it."""

from __future__ import annotations

import ipaddress
import secrets
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28, "SRV": 33, "HTTPS": 65}
NAMES = {number: name for name, number in TYPES.items()}
RCODES = {"NODATA": 0, "FORMERR": 1, "SERVFAIL": 2, "NXDOMAIN": 3, "NOTIMP": 4, "REFUSED": 5}
_HEADER = struct.Struct(">6H")
_RESPONSE, _OPCODE, _RECURSION_DESIRED, _RECURSION_AVAILABLE = 0x8000, 0x7800, 0x0100, 0x0080


@dataclass(frozen=True)
class Question:
    """The one question of a standard query. `name` is in lower case, without the last dot; `raw` as it was asked."""

    name: str
    kind: int
    raw: bytes
    number: int
    flags: int

    @property
    def type(self) -> str:
        """Its name."""
        return NAMES.get(self.kind, f"TYPE{self.kind}")


def question(message: bytes) -> Question | None:
    """The question of a standard query with exactly one, None for anything else."""
    if len(message) < _HEADER.size:
        return None
    number, flags, count, *_ = _HEADER.unpack_from(message)
    if flags & (_RESPONSE | _OPCODE) or count != 1:
        return None
    labels, at = [], _HEADER.size
    while True:
        if at >= len(message):
            return None
        length = message[at]
        if length == 0:
            break
        if length > 63 or at + 1 + length > len(message):
            return None
        labels.append(message[at + 1 : at + 1 + length])
        at += 1 + length
    end = at + 5
    if end > len(message):
        return None
    kind = struct.unpack_from(">H", message, at + 1)[0]
    name = b".".join(labels).decode("ascii", "backslashreplace").lower()
    return Question(name, kind, message[_HEADER.size : end], number, flags)


def response(asked: Question, rcode: int, addresses: Iterable[str] = (), ttl: int = 0) -> bytes:
    """The answer of a resolver; of `addresses` those of the family that was asked for."""
    packed = [ipaddress.ip_address(address).packed for address in addresses]
    fitting = [a for a in packed if (len(a), asked.kind) in ((4, TYPES["A"]), (16, TYPES["AAAA"]))]
    flags = _RESPONSE | (asked.flags & _RECURSION_DESIRED) | _RECURSION_AVAILABLE | rcode
    records = [struct.pack(">HHHIH", 0xC00C, asked.kind, 1, ttl, len(a)) + a for a in fitting]
    return _HEADER.pack(asked.number, flags, 1, len(records), 0, 0) + asked.raw + b"".join(records)


def query(name: str, kind: int) -> bytes:
    """A question with a random number."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    return (
        _HEADER.pack(secrets.randbelow(1 << 16), _RECURSION_DESIRED, 1, 0, 0, 0)
        + labels
        + b"\0"
        + struct.pack(">HH", kind, 1)
    )


def answered(message: bytes) -> tuple[int, list[str]] | None:
    """Response code and addresses of a response, None when it is none or torn."""
    if len(message) < _HEADER.size:
        return None
    _, flags, questions, answers, *_ = _HEADER.unpack_from(message)
    if not flags & _RESPONSE:
        return None
    try:
        at = _HEADER.size
        for _ in range(questions):
            at = _after_name(message, at) + 4
        found = []
        for _ in range(answers):
            at = _after_name(message, at)
            kind, _, _, length = struct.unpack_from(">HHIH", message, at)
            data = message[at + 10 : at + 10 + length]
            at += 10 + length
            if (kind, len(data)) in ((TYPES["A"], 4), (TYPES["AAAA"], 16)):
                found.append(str(ipaddress.ip_address(data)))
    except (struct.error, IndexError):
        return None
    return flags & 15, found


def _after_name(message: bytes, at: int) -> int:
    while (length := message[at]) != 0:
        if length >= 0xC0:
            return at + 2
        at += 1 + length
    return at + 1


def matches(name: str, patterns: Sequence[str]) -> bool:
    """Is the name one of these? `*` is any, `*.a.test` is any below a.test, anything else is itself."""
    return any(
        pattern in ("*", name) or (pattern.startswith("*.") and name.endswith(pattern[1:])) for pattern in patterns
    )
