"""A TLS server with a bad certificate in front of a real one, and what its clients make of it."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable

from stormcell.guest.tools.dns.proxy import original_of
from stormcell.guest.tools.relay import certificates
from stormcell.guest.tools.relay.certificates import Issuer
from stormcell.guest.tools.relay.ecdsa import EcKey
from stormcell.guest.tools.relay.orders import Ledger, Orders

CONTEXTS = 64
HANDSHAKE_S = 30.0
CHUNK = 64 << 10
DAY = 86400.0
WRONG_NAME = "wrong.invalid"
ALERTS = {
    "SSLV3_ALERT_BAD_CERTIFICATE": "bad_certificate (42)",
    "SSLV3_ALERT_UNSUPPORTED_CERTIFICATE": "unsupported_certificate (43)",
    "SSLV3_ALERT_CERTIFICATE_REVOKED": "certificate_revoked (44)",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "certificate_expired (45)",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "certificate_unknown (46)",
    "TLSV1_ALERT_UNKNOWN_CA": "unknown_ca (48)",
    "TLSV1_ALERT_ACCESS_DENIED": "access_denied (49)",
    "SSLV3_ALERT_HANDSHAKE_FAILURE": "handshake_failure (40)",
    "TLSV1_ALERT_INTERNAL_ERROR": "internal_error (80)",
    "TLSV1_ALERT_USER_CANCELLED": "user_canceled (90)",
}
"""OpenSSL's names of the alerts of RFC 8446, 6.2."""


class Face:
    """Makes a certificate for each name that is asked for, all with one key."""

    def __init__(self, orders: Orders, authority_name: str) -> None:
        self._orders = orders
        self._key = EcKey.make()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = threading.Lock()
        self.issuer: Issuer | None = None
        if orders.issuer:
            self.issuer = certificates.issuer_of(*orders.issuer)
        elif orders.problem != "self-signed":
            self.issuer = certificates.authority(authority_name, EcKey.make())

    def context(self, name: str) -> ssl.SSLContext:
        """For clients that ask for this name or address."""
        with self._lock:
            if name not in self._contexts:
                if len(self._contexts) >= CONTEXTS:
                    self._contexts.pop(next(iter(self._contexts)))
                self._contexts[name] = self._make(name)
            return self._contexts[name]

    def _make(self, name: str) -> ssl.SSLContext:
        now, by = time.time(), self._orders.delay or DAY
        validity = {"expired": (now - by - 30 * DAY, now - by), "not-yet-valid": (now + by, now + by + 30 * DAY)}.get(
            self._orders.problem, (now - DAY, now + 30 * DAY)
        )
        asked = WRONG_NAME if self._orders.problem == "wrong-name" else name
        chain = [certificates.leaf(self.issuer, self._key, asked, validity)]
        chain += [self.issuer.certificate] if self.issuer else []
        text = "".join(certificates.pem("CERTIFICATE", der) for der in chain) + certificates.private_pem(self._key)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        fd = os.memfd_create("certificate")
        try:
            os.write(fd, text.encode())
            context.load_cert_chain(f"/proc/self/fd/{fd}")
        finally:
            os.close(fd)
        return context

    def serve(
        self, down: socket.socket, first: bytes, name: str, connect: Callable[[], socket.socket], ledger: Ledger
    ) -> socket.socket | None:
        """Shake hands; a client that takes the certificate is served by the real server. Raises OSError."""
        client = Side(down, self.context(name or original_of(down)[0]).wrap_bio, server_side=True)
        down.settimeout(HANDSHAKE_S)
        client.incoming.write(first)
        try:
            client.handshake()
        except ssl.SSLError as error:
            ledger.hit()
            ledger.outcome(_refusal(error))
            return None
        except OSError:
            ledger.hit()
            ledger.outcome("the client left without an alert")
            return None
        ledger.hit()
        ledger.outcome("ACCEPTED: the client took the certificate")
        up = connect()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        up.settimeout(HANDSHAKE_S)
        server = Side(up, context.wrap_bio, server_side=False, server_hostname=name or None)
        try:
            server.handshake()
            bridge(client, server)
        except OSError:
            pass
        return up


class Side:
    """One TLS connection over a socket, with its records in memory."""

    def __init__(self, connection: socket.socket, wrap: Callable[..., ssl.SSLObject], **parts: object) -> None:
        self.connection = connection
        self.incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = wrap(self.incoming, self._outgoing, **parts)

    def handshake(self) -> None:
        """Blocks. Raises OSError; SSLError is the peer's alert or our own complaint."""
        while True:
            try:
                self._tls.do_handshake()
                return
            except ssl.SSLWantReadError:
                self.flush()
                self.more()
            finally:
                self.flush()

    def more(self) -> bool:
        """Take what came; False at the end."""
        data = self.connection.recv(CHUNK)
        if data:
            self.incoming.write(data)
        else:
            self.incoming.write_eof()
        return bool(data)

    def flush(self) -> None:
        """Send what TLS wants to say."""
        if data := self._outgoing.read():
            self.connection.sendall(data)

    def read(self) -> bytes:
        """What has been decrypted, b"" when nothing is there. Raises OSError at the end."""
        try:
            data = self._tls.read(CHUNK)
        except ssl.SSLWantReadError:
            return b""
        if not data:
            raise ConnectionAbortedError("closed")
        return data

    def write(self, data: bytes) -> None:
        """Encrypted and sent."""
        self._tls.write(data)
        self.flush()


def bridge(one: Side, other: Side) -> None:
    """Carry what each says to the other until one ends. Raises OSError."""
    sides = {one.connection.fileno(): (one, other), other.connection.fileno(): (other, one)}
    while True:
        for source, sink in sides.values():
            while data := source.read():
                sink.write(data)
        for fd in select.select(list(sides), [], [])[0]:
            sides[fd][0].more()


def _refusal(error: ssl.SSLError) -> str:
    reason = error.reason or ""
    if "ALERT" in reason:
        return f"alert {ALERTS.get(reason, reason.lower().replace('_', ' '))} from the client"
    if isinstance(error, ssl.SSLEOFError) or "EOF" in reason:
        return "the client left without an alert"
    return f"no handshake: {reason.lower().replace('_', ' ') or 'unknown reason'}"
