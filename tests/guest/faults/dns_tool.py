"""Runs in the guest: a DNS server and clients of it, written against RFC 1035 alone. Standard library only."""

import socket
import socketserver
import struct
import sys
import threading
import time

ADDRESSES = {1: socket.inet_aton("198.51.100.7"), 28: socket.inet_pton(socket.AF_INET6, "2001:db8::7")}


def reply(query):
    at = 12
    while query[at]:
        at += 1 + query[at]
    kind = struct.unpack_from(">H", query, at + 1)[0]
    data = ADDRESSES.get(kind, b"")
    record = struct.pack(">HHHIH", 0xC00C, kind, 1, 60, len(data)) + data if data else b""
    return query[:2] + struct.pack(">5H", 0x8180, 1, bool(data), 0, 0) + query[12 : at + 5] + record


class Datagram(socketserver.BaseRequestHandler):
    def handle(self):
        data, udp = self.request
        udp.sendto(reply(data), self.client_address)


class Stream(socketserver.BaseRequestHandler):
    def handle(self):
        while len(head := self.request.recv(2)) == 2:
            answer = reply(self.request.recv(struct.unpack(">H", head)[0]))
            self.request.sendall(struct.pack(">H", len(answer)) + answer)


class Udp6(socketserver.ThreadingUDPServer):
    address_family = socket.AF_INET6


class Tcp(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class Tcp6(Tcp):
    address_family = socket.AF_INET6


def serve(*hosts):
    """UDP and TCP port 53 of each host."""
    for host in hosts:
        six = ":" in host
        for made in (
            (Udp6 if six else socketserver.ThreadingUDPServer)((host, 53), Datagram),
            (Tcp6 if six else Tcp)((host, 53), Stream),
        ):
            threading.Thread(target=made.serve_forever, daemon=True).start()
    while True:
        time.sleep(60)


def ask(server, name, kind, over, timeout=5):
    """One query of our own; rcode, addresses, milliseconds."""
    sys.stdout.write(asked(server, name, kind, over, timeout) + "\n")


def many(server, name, count):
    """That often, one after the other; a line for each."""
    for _ in range(count):
        ask(server, name, "A", "udp")


def asked(server, name, kind, over, timeout):
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    query = (
        struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + labels + b"\0" + struct.pack(">HH", {"A": 1, "AAAA": 28}[kind], 1)
    )
    family = socket.AF_INET6 if ":" in server else socket.AF_INET
    began = time.monotonic()
    try:
        with socket.socket(family, socket.SOCK_STREAM if over == "tcp" else socket.SOCK_DGRAM) as client:
            client.settimeout(timeout)
            client.connect((server, 53))
            client.sendall(struct.pack(">H", len(query)) + query if over == "tcp" else query)
            answer = client.recv(4096)[2 if over == "tcp" else 0 :]
    except OSError as error:
        return f"{type(error).__name__} {round((time.monotonic() - began) * 1000)}"
    took = round((time.monotonic() - began) * 1000)
    count, size = answer[7], {"A": 4, "AAAA": 16}[kind]
    given = [socket.inet_ntop(family_of(size), answer[-size:])] if count else []
    return " ".join([str(answer[3] & 15), *given, str(took)])


def family_of(size):
    return socket.AF_INET if size == 4 else socket.AF_INET6


def lookup(name, times=1):
    """The quickest of so many lookups."""
    said = [looked_up(name) for _ in range(times)]
    sys.stdout.write(min(said, key=lambda one: int(one.split()[-1])) + "\n")


def looked_up(name):
    """What the C library says, and milliseconds."""
    began = time.monotonic()
    try:
        said = sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)})
    except socket.gaierror as error:
        said = [name for name in ("EAI_NONAME", "EAI_AGAIN", "EAI_FAIL", "EAI_NODATA")
                if getattr(socket, name) == error.errno]  # fmt: skip
    return f"{' '.join(said)} {round((time.monotonic() - began) * 1000)}"


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    globals()[what](*[int(word) if word.isdigit() else word for word in words])
