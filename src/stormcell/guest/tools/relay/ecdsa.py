"""Signatures on the curve P-256 and with RSA, in plain numbers: the standard library makes no certificates.

For certificates of faults alone: it takes a time that depends on the key.
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass

P = 2**256 - 2**224 + 2**192 + 2**96 - 1
N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")  # DigestInfo, RFC 8017, 9.2

Point = tuple[int, int]
_Jacobian = tuple[int, int, int]


@dataclass(frozen=True)
class EcKey:
    """A private number, and its point."""

    secret: int
    public: Point

    @classmethod
    def make(cls, secret: int | None = None) -> EcKey:
        """A new one, or that of a number."""
        number = secret or secrets.randbelow(N - 1) + 1
        return cls(number, multiply(number))

    def sign(self, message: bytes) -> tuple[int, int]:
        """ECDSA with SHA-256 (FIPS 186-5, 6.4)."""
        digest = int.from_bytes(hashlib.sha256(message).digest(), "big")
        while True:
            nonce = secrets.randbelow(N - 1) + 1
            r = multiply(nonce)[0] % N
            s = pow(nonce, -1, N) * (digest + r * self.secret) % N
            if r and s:
                return r, s


@dataclass(frozen=True)
class RsaKey:
    """Modulus and private exponent."""

    modulus: int
    exponent: int

    def sign(self, message: bytes) -> bytes:
        """RSASSA-PKCS1-v1_5 with SHA-256 (RFC 8017, 8.2)."""
        size = (self.modulus.bit_length() + 7) // 8
        digest = _SHA256 + hashlib.sha256(message).digest()
        padded = b"\0\1" + b"\xff" * (size - len(digest) - 3) + b"\0" + digest
        return pow(int.from_bytes(padded, "big"), self.exponent, self.modulus).to_bytes(size, "big")


def multiply(number: int, point: Point = G) -> Point:
    """`number` times `point`, four bits at a time."""
    table: list[_Jacobian] = [(1, 1, 0), (*point, 1)]
    for _ in range(14):
        table.append(_add(table[-1], table[1]))
    total = table[0]
    for shift in range((number.bit_length() + 3) // 4 * 4 - 4, -1, -4):
        total = _double(_double(_double(_double(total))))
        if digit := number >> shift & 15:
            total = _add(total, table[digit])
    x, y, z = total
    inverse = pow(z, -1, P)
    return x * inverse**2 % P, y * inverse**3 % P


def _double(point: _Jacobian) -> _Jacobian:
    """On a curve with a = -3: hyperelliptic.org/EFD, dbl-2001-b."""
    x, y, z = point
    if not z:
        return point
    delta, gamma = z * z % P, y * y % P
    beta = x * gamma % P
    alpha = 3 * (x - delta) * (x + delta) % P
    nx = (alpha * alpha - 8 * beta) % P
    return nx, (alpha * (4 * beta - nx) - 8 * gamma * gamma) % P, ((y + z) ** 2 - gamma - delta) % P


def _add(one: _Jacobian, two: _Jacobian) -> _Jacobian:
    """hyperelliptic.org/EFD, add-1998-cmo-2."""
    if not one[2]:
        return two
    if not two[2]:
        return one
    z1, z2 = one[2] * one[2] % P, two[2] * two[2] % P
    u1, u2 = one[0] * z2 % P, two[0] * z1 % P
    s1, s2 = one[1] * two[2] * z2 % P, two[1] * one[2] * z1 % P
    h, r = (u2 - u1) % P, (s2 - s1) % P
    if not h:
        return _double(one) if not r else (1, 1, 0)
    h2 = h * h % P
    h3, v = h * h2 % P, u1 * h2 % P
    x = (r * r - h3 - 2 * v) % P
    return x, (r * (v - x) - s1 * h3) % P, h * one[2] * two[2] % P
