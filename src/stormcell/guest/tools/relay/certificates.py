"""X.509 certificates (RFC 5280) made in the guest, and keys of the user's read from PEM files."""

from __future__ import annotations

import base64
import hashlib
import ipaddress
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass

from stormcell.guest.tools.relay.ecdsa import EcKey, RsaKey

_PEM = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\n(.*?)-----END \1-----", re.DOTALL)
_EC, _P256, _RSA = "1.2.840.10045.2.1", "1.2.840.10045.3.1.7", "1.2.840.113549.1.1.1"
_ECDSA_SHA256, _RSA_SHA256 = "1.2.840.10045.4.3.2", "1.2.840.113549.1.1.11"
_COMMON_NAME, _CONSTRAINTS, _KEY_USAGE, _ALT_NAMES = "2.5.4.3", "2.5.29.19", "2.5.29.15", "2.5.29.17"
_EXTENDED_USAGE, _SERVER_AUTH = "2.5.29.37", "1.3.6.1.5.5.7.3.1"
_SUBJECT_KEY, _AUTHORITY_KEY = "2.5.29.14", "2.5.29.35"

Key = EcKey | RsaKey


@dataclass(frozen=True)
class Issuer:
    """Who signs: `subject` is its name in DER, `certificate` in DER, `key_id` what its certificate calls its key."""

    key: Key
    subject: bytes
    certificate: bytes
    key_id: bytes | None


def authority(name: str, key: EcKey) -> Issuer:
    """A self-signed authority, valid from yesterday on for a month."""
    subject = distinguished(name)
    key_id = identifier(key)
    now = time.time()
    extensions = [
        _extension(_CONSTRAINTS, _sequence(b"\x01\x01\xff"), critical=True),
        _extension(_KEY_USAGE, b"\x03\x02\x01\x06", critical=True),
        _extension(_SUBJECT_KEY, _tlv(4, key_id)),
    ]
    made = _signed(key, subject, subject, key, (now - 86400, now + 30 * 86400), extensions)
    return Issuer(key, subject, made, key_id)


def leaf(issuer: Issuer | None, key: EcKey, name: str, validity: tuple[float, float]) -> bytes:
    """A server's certificate for one host name or address; without an issuer signed by itself."""
    subject = distinguished(name[:64])
    alternative = _tlv(0x82, name.encode())
    try:
        alternative = _tlv(0x87, ipaddress.ip_address(name).packed)
    except ValueError:
        pass
    extensions = [
        _extension(_ALT_NAMES, _sequence(alternative)),
        _extension(_EXTENDED_USAGE, _sequence(_oid(_SERVER_AUTH))),
        _extension(_KEY_USAGE, b"\x03\x02\x07\x80", critical=True),
    ]
    if issuer is not None and issuer.key_id is not None:
        extensions.append(_extension(_AUTHORITY_KEY, _sequence(_tlv(0x80, issuer.key_id))))
    signer = issuer.key if issuer else key
    return _signed(signer, issuer.subject if issuer else subject, subject, key, validity, extensions)


def identifier(key: EcKey) -> bytes:
    """Of a public key (RFC 5280, 4.2.1.2, method 1)."""
    return hashlib.sha1(_point(key), usedforsecurity=False).digest()


def pem(kind: str, der: bytes) -> str:
    """As text."""
    text = base64.b64encode(der).decode()
    lines = "\n".join(text[i : i + 64] for i in range(0, len(text), 64))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----\n"


def private_pem(key: EcKey) -> str:
    """SEC 1, as OpenSSL reads it (RFC 5915)."""
    parts = _integer(1) + _tlv(4, key.secret.to_bytes(32, "big")) + _tlv(0xA0, _oid(_P256))
    return pem("EC PRIVATE KEY", _sequence(parts + _tlv(0xA1, _bits(_point(key)))))


def issuer_of(certificate_path: str, key_path: str) -> Issuer:
    """From PEM files: an RSA or P-256 key without a passphrase. Raises OSError, ValueError."""
    with open(certificate_path, encoding="ascii", errors="replace") as file:
        der = next((data for kind, data in blocks(file.read()) if kind == "CERTIFICATE"), None)
    with open(key_path, encoding="ascii", errors="replace") as file:
        keys = [found for kind, data in blocks(file.read()) if (found := _private(kind, data)) is not None]
    if der is None:
        raise ValueError(f"there is no certificate in {certificate_path}")
    if not keys:
        raise ValueError(f"there is no RSA or P-256 key without a passphrase in {key_path}")
    body = next(_parts(next(_parts(der))[1]))[1]
    fields = [item for item in _parts(body) if item[0] != 0xA0]
    return Issuer(keys[0], fields[4][2], der, _key_id(body))


def blocks(text: str) -> Iterator[tuple[str, bytes]]:
    """Kind and content of every PEM block that can be read."""
    for kind, body in _PEM.findall(text.replace("\r\n", "\n")):
        if ":" in body:
            continue  # encrypted, in the old way
        try:
            yield kind, base64.b64decode("".join(body.split()), validate=True)
        except ValueError:
            continue


def distinguished(name: str) -> bytes:
    """A name that is a common name alone."""
    attribute = _sequence(_oid(_COMMON_NAME) + _tlv(12, name.encode()))
    return _sequence(_tlv(0x31, attribute))


def _private(kind: str, der: bytes) -> Key | None:
    try:
        if kind == "PRIVATE KEY":
            _, algorithm, inner = list(_parts(next(_parts(der))[1]))[:3]
            kind = "RSA PRIVATE KEY" if _oid(_RSA) in algorithm[1] else "EC PRIVATE KEY"
            if kind.startswith("EC") and _oid(_P256) not in algorithm[1]:
                return None
            return _private(kind + "+", inner[1])
        numbers = list(_parts(next(_parts(der))[1]))
        if kind.startswith("RSA"):
            return RsaKey(int.from_bytes(numbers[1][1], "big"), int.from_bytes(numbers[3][1], "big"))
        if kind.startswith("EC PRIVATE KEY") and (kind.endswith("+") or _oid(_P256) in der):
            return EcKey.make(int.from_bytes(numbers[1][1], "big"))
    except (StopIteration, IndexError, ValueError):
        pass
    return None


def _key_id(body: bytes) -> bytes | None:
    for kind, content, _ in _parts(body):
        if kind == 0xA3:
            for _, extension, _ in _parts(next(_parts(content))[1]):
                parts = list(_parts(extension))
                if parts[0][2] == _oid(_SUBJECT_KEY):
                    return next(_parts(parts[-1][1]))[1]
    return None


def _signed(signer: Key, issuer: bytes, subject: bytes, key: EcKey, validity: tuple[float, float],
            extensions: list[bytes]) -> bytes:  # fmt: skip
    rsa = isinstance(signer, RsaKey)
    algorithm = _sequence(_oid(_RSA_SHA256) + b"\x05\x00" if rsa else _oid(_ECDSA_SHA256))
    public = _sequence(_sequence(_oid(_EC) + _oid(_P256)) + _bits(_point(key)))
    body = _sequence(
        _tlv(0xA0, _integer(2)) + _integer(secrets.randbits(120) + 1) + algorithm + issuer
        + _sequence(_time(validity[0]) + _time(validity[1])) + subject + public
        + _tlv(0xA3, _sequence(b"".join(extensions)))
    )  # fmt: skip
    if isinstance(signer, RsaKey):
        signature = signer.sign(body)
    else:
        r, s = signer.sign(body)
        signature = _sequence(_integer(r) + _integer(s))
    return _sequence(body + algorithm + _bits(signature))


def _extension(oid: str, content: bytes, *, critical: bool = False) -> bytes:
    return _sequence(_oid(oid) + (b"\x01\x01\xff" if critical else b"") + _tlv(4, content))


def _point(key: EcKey) -> bytes:
    return b"\4" + key.public[0].to_bytes(32, "big") + key.public[1].to_bytes(32, "big")


def _time(at: float) -> bytes:
    """RFC 5280, 4.1.2.5: two digits of the year until 2049."""
    moment = time.gmtime(at)
    if 1950 <= moment.tm_year < 2050:
        return _tlv(0x17, time.strftime("%y%m%d%H%M%SZ", moment).encode())
    return _tlv(0x18, time.strftime("%Y%m%d%H%M%SZ", moment).encode())


def _tlv(kind: int, content: bytes) -> bytes:
    size = len(content)
    if size < 128:
        return bytes([kind, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([kind, 0x80 | len(length)]) + length + content


def _sequence(content: bytes) -> bytes:
    return _tlv(0x30, content)


def _bits(content: bytes) -> bytes:
    return _tlv(3, b"\0" + content)


def _integer(number: int) -> bytes:
    return _tlv(2, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _oid(dotted: str) -> bytes:
    first, second, *rest = map(int, dotted.split("."))
    content = bytes([40 * first + second])
    for number in rest:
        septets = [number & 127]
        while number := number >> 7:
            septets.append(number & 127 | 128)
        content += bytes(reversed(septets))
    return _tlv(6, content)


def _parts(der: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """Tag, content and whole of each value in turn."""
    while len(der) >= 2:
        size, at = der[1], 2
        if size & 128:
            at += size & 127
            size = int.from_bytes(der[2:at], "big")
        if at + size > len(der):
            return
        yield der[0], der[at : at + size], der[: at + size]
        der = der[at + size :]
