"""Runs in the guest: HTTP servers with and without TLS, and clients that say what they were given."""

import http.server
import os
import socket
import ssl
import sys
import threading
import time
from pathlib import Path


class Handler(http.server.BaseHTTPRequestHandler):
    """GET /N answers N bytes; the connection stays open."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        body = b"x" * int(self.path[1:] or 2)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format, *args):
        pass


class Dual(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def serve(port, tls_port, chain):
    """Both servers, for IPv4 and IPv6."""
    secure = Dual(("::", tls_port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain)
    secure.socket = context.wrap_socket(secure.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=secure.serve_forever, daemon=True).start()
    Dual(("::", port), Handler).serve_forever()


def make(folder, *names):
    """An authority of our own (ca.pem, ca.key), and for each name a certificate of it (NAME.pem)."""
    sys.path.insert(0, "/run/stormcell/guest.pyz")
    from stormcell.guest.tools.relay import certificates
    from stormcell.guest.tools.relay.ecdsa import EcKey

    place = Path(folder)
    place.mkdir(exist_ok=True)
    key = EcKey.make()
    authority = certificates.authority("Test authority", key)
    known = certificates.pem("CERTIFICATE", authority.certificate)
    (place / "ca.pem").write_text(known)
    (place / "ca.key").write_text(certificates.private_pem(key))
    for name in names:
        now, own = time.time(), EcKey.make()
        der = certificates.leaf(authority, own, name, (now - 3600, now + 7 * 86400))
        (place / f"{name}.pem").write_text(certificates.pem("CERTIFICATE", der) + known + certificates.private_pem(own))


def many(host, port, size, count):
    """So many connections, one after the other, with one request each."""
    for _ in range(count):
        get(host, port, size)


def get(host, port, size, times=1, ca="", name="", timeout=10):
    """One connection, so many requests; for each: what came, and ms to its first and its last byte."""
    began = time.monotonic()
    try:
        with socket.create_connection((host, port), timeout) as plain:
            connection = plain
            if name:
                context = ssl.create_default_context(cafile=ca) if ca != "none" else ssl._create_unverified_context()
                connection = context.wrap_socket(plain, server_hostname=name)
            for _ in range(times):
                began = time.monotonic()
                connection.sendall(f"GET /{size} HTTP/1.1\r\nHost: {name or host}\r\n\r\n".encode())
                said, first = b"", 0.0
                while b"\r\n\r\n" not in said or len(said.split(b"\r\n\r\n", 1)[1]) < length(said):
                    piece = connection.recv(65536)
                    first = first or time.monotonic() - began
                    if not piece:
                        break
                    said += piece
                head, _, body = said.partition(b"\r\n\r\n")
                status = head.split(b" ")[1].decode() if head else "closed"
                report(status, len(body), first, time.monotonic() - began)
    except ssl.SSLCertVerificationError as error:
        report(f"certificate:{error.verify_message.replace(' ', '-')}", 0, 0, time.monotonic() - began)
    except OSError as error:
        report(type(error).__name__, len(locals().get("said", b"")), 0, time.monotonic() - began)


def length(said):
    lines = said.split(b"\r\n\r\n")[0].lower().split(b"\r\n")
    return next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length")), 0)


def report(what, size, first, last):
    sys.stdout.write(f"{what} {size} {round(first * 1000)} {round(last * 1000)}\n")


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    globals()[what](*[int(word) if word.isdigit() else word for word in words])
    sys.stdout.flush()
    os._exit(0)
