"""Runs in the guest: a small server and clients that say what a network did to them. Standard library only."""

import contextlib
import errno
import socket
import sys
import threading
import time
from pathlib import Path

SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33  # asm-generic/socket.h; Python has no names for them


def family(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def serve(port):
    """Echoes over TCP and UDP, IPv4 and IPv6."""
    tcp = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=64)
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
    udp.bind(("::", port))
    threading.Thread(target=echo_datagrams, args=(udp,), daemon=True).start()
    while True:
        connection, _ = tcp.accept()
        threading.Thread(target=echo_stream, args=(connection,), daemon=True).start()


def echo_datagrams(udp):
    while True:
        try:
            data, sender = udp.recvfrom(65536)
            udp.sendto(data, sender)
        except OSError:
            pass


def echo_stream(connection):
    try:
        while data := connection.recv(65536):
            connection.sendall(data)
    except OSError:
        pass
    connection.close()


def report(call):
    began = time.monotonic()
    try:
        call()
        how = "OK"
    except TimeoutError:
        how = "TIMEOUT"
    except OSError as error:
        how = errno.errorcode.get(error.errno or 0, str(error))
    return f"{how} {round((time.monotonic() - began) * 1000)}"


def quickest(times, what, *words):
    """The quickest of so many attempts, one after the other."""
    return min((globals()[what](*words) for _ in range(times)), key=lambda said: int(said.split()[1]))


def connect(host, port, timeout):
    return report(lambda: socket.create_connection((host, port), timeout).close())


def transfer(host, port, size):
    """Milliseconds until `size` bytes were echoed."""

    def both_ways():
        with socket.create_connection((host, port), 60) as connection:
            threading.Thread(target=connection.sendall, args=(b"x" * size,), daemon=True).start()
            left = size
            while left > 0 and (data := connection.recv(65536)):
                left -= len(data)

    return report(both_ways)


def datagrams(host, port, count, timeout):
    """How many of `count` were echoed, and how many sends failed."""
    udp = socket.socket(family(host), socket.SOCK_DGRAM)
    udp.settimeout(timeout)
    back = failed = 0
    for _ in range(count):
        try:
            udp.sendto(b"x", (host, port))
            udp.recv(100)
            back += 1
        except TimeoutError:
            pass
        except OSError:
            failed += 1
    return f"back {back} failed {failed}"


def burst(host, port, count, seconds):
    """Send `count` datagrams at once, then count what comes back until nothing came for so many seconds."""
    udp = socket.socket(family(host), socket.SOCK_DGRAM)
    for option in (SO_SNDBUFFORCE, SO_RCVBUFFORCE):
        udp.setsockopt(socket.SOL_SOCKET, option, 1 << 24)
    udp.settimeout(seconds)
    for _ in range(count):
        udp.sendto(b"y" * 100, (host, port))
    back = 0
    with contextlib.suppress(TimeoutError):
        while back < count:
            udp.recv(1000)
            back += 1
    return f"back {back}"


def flow(host, port, count, gap_ms, path):
    """Send `count` numbered datagrams, one every `gap_ms`; what was sent goes to PATH."""
    udp = socket.socket(family(host), socket.SOCK_DGRAM)
    sent = 0
    for number in range(count):
        try:
            udp.sendto(str(number).encode(), (host, port))
            sent += 1
        except OSError:
            pass
        time.sleep(gap_ms / 1000)
    put(path, str(sent))


def sink(port, path):
    """Count the numbered datagrams that arrive, each number once.

    Whenever nothing came for 0.2 s PATH says so: different ones, all, overtaken ones, and how often that was.
    """
    udp = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    udp.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    udp.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
    udp.bind(("::", port))
    udp.settimeout(0.2)
    seen, total, late, highest, idle = set(), 0, 0, -1, 0
    while True:
        try:
            number = int(udp.recv(100))
            total += 1
            late += number < highest and number not in seen
            highest = max(highest, number)
            seen.add(number)
        except TimeoutError:
            idle += 1
            put(path, f"{len(seen)} {total} {late} {idle}\n")
        except ValueError:
            total += 1


def put(path, text):
    """Whole: whoever reads it sees the old or the new."""
    new = Path(f"{path}.new")
    new.write_text(text)
    new.replace(path)


def late(host, port, path):
    """Send one datagram, say so in PATH.sent, and keep the answer in PATH."""
    udp = socket.socket(family(host), socket.SOCK_DGRAM)
    udp.settimeout(20)
    udp.sendto(b"late", (host, port))
    Path(f"{path}.sent").touch()
    Path(path).write_bytes(udp.recv(100))


def patient(host, port):
    """A connection, once there is a server."""
    end = time.monotonic() + 30
    while True:
        try:
            return socket.create_connection((host, port), 5)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)


def keep_open(host, port, seconds, enough=""):
    """An open connection that says something every 0.1 s, and how it ended.

    It ends by itself after so many seconds; or, with a file, one word after that is there.
    """
    connection = patient(host, port)
    connection.settimeout(seconds)

    def talk():
        end, last = time.monotonic() + seconds, False
        while not last:
            last = Path(enough).exists() if enough else time.monotonic() >= end
            connection.sendall(b"x")
            if not connection.recv(100):
                raise ConnectionResetError(errno.ECONNRESET, "closed by the peer")
            time.sleep(0.1)

    return report(talk)


if __name__ == "__main__":
    what, *words = sys.argv[1:]
    said = globals()[what](*[int(word) if word.isdigit() else word for word in words])
    if said:
        sys.stdout.write(f"{said}\n")
