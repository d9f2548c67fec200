"""A relay of TCP connections that nftables redirects to it: what is meant gets the fault, everything else passes.

A thread for each direction of a connection, and no more connections at once than `AT_ONCE`.
"""

from __future__ import annotations

import contextlib
import re
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable

from stormcell.guest.tools.dns.proxy import original_of
from stormcell.guest.tools.relay import tlshello
from stormcell.guest.tools.relay.orders import Ledger
from stormcell.guest.tools.relay.tlsface import Face

AT_ONCE = 256
CHUNK = 64 << 10
CONNECT_S = 30.0
SLICE_S = 0.1
_SO_MARK = 36
_REQUEST = re.compile(rb"[A-Z]{3,20} \S+ HTTP/1\.[01]\r\n")
_HEAD = 64 << 10
_ABORT = struct.pack("ii", 1, 0)

Address = tuple[str, int]


class Relay:
    """Bound when it is made, works in `run`."""

    def __init__(self, ledger: Ledger, port: int, mark: int, face: Face | None = None) -> None:
        self.ledger = ledger
        self._mark = mark
        self._face = face
        hosts = ("0.0.0.0", "::") if ledger.orders.everywhere else ("127.0.0.1", "::1")
        self._listening = [_listen(host, port) for host in hosts]
        self._port = port
        self._room = threading.BoundedSemaphore(AT_ONCE)

    def run(self) -> None:
        """Until the process ends."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * AT_ONCE), hard))
        threading.stack_size(256 << 10)
        for listening in self._listening[1:]:
            threading.Thread(target=self._accept, args=(listening,), daemon=True).start()
        self._accept(self._listening[0])

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                down, _ = listening.accept()
            except OSError:
                time.sleep(0.05)
                continue
            self.ledger.count("connections")
            if not self._room.acquire(blocking=False):
                self.ledger.count("dropped")
                reset(down)
                continue
            threading.Thread(target=self._serve, args=(down,), daemon=True).start()

    def _serve(self, down: socket.socket) -> None:
        connection = Connection(self, down)
        try:
            down.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.serve(self._face)
        except OSError:
            reset(down)
        finally:
            connection.close()
            self._room.release()

    def connect(self, down: socket.socket) -> socket.socket:
        """A marked connection to where this one was going. Raises OSError."""
        try:
            server = original_of(down)
            if server[1] == self._port:
                raise OSError("a connection to the relay itself")
            up = socket.socket(down.family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            try:
                if self._mark:
                    up.setsockopt(socket.SOL_SOCKET, _SO_MARK, self._mark)
                up.settimeout(CONNECT_S)
                up.connect(server)
                up.settimeout(None)
                up.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            except OSError:
                up.close()
                raise
        except OSError:
            self.ledger.count("unreachable")
            raise
        return up


class Connection:
    """One connection of a client, and its way on."""

    def __init__(self, relay: Relay, down: socket.socket) -> None:
        self._relay = relay
        self._ledger = relay.ledger
        self._down = down
        self._up: socket.socket | None = None
        self._asked = threading.Event()
        self._asked.set()

    def serve(self, face: Face | None) -> None:
        """Until both ends are closed. Raises OSError."""
        ledger = self._ledger
        do = ledger.orders.do
        if do == "first-byte":
            self._join(b"", self._first_byte)
        elif do == "slow-body":
            self._join(b"", self._slow if ledger.draws() else self._pass())
        elif do == "abort":
            self._join(b"", self._abort if ledger.draws() else self._pass())
        elif do == "status":
            self._status()
        else:
            self._tls(do, face)

    def close(self) -> None:
        """Both ends."""
        for end in (self._up, self._down):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.close()

    # -- what is done to answers: each takes bytes of the server and gives them to the client

    def _pass(self) -> Callable[[bytes], None]:
        self._ledger.count("passed")
        return self._down.sendall

    def _first_byte(self, data: bytes) -> None:
        if self._asked.is_set():
            self._asked.clear()
            if self._ledger.draws():
                held = self._ledger.hold()
                time.sleep(held)
                self._ledger.hit(held, len(data))
            else:
                self._ledger.count("passed")
        self._down.sendall(data)

    def _slow(self, data: bytes) -> None:
        sent = 0
        while sent < len(data):
            rate = self._ledger.orders.rate
            piece = data[sent : sent + max(1, round(rate * SLICE_S))]
            time.sleep(len(piece) / rate)
            self._ledger.hit(size=len(piece))
            self._down.sendall(piece)
            sent += len(piece)

    def _abort(self, data: bytes) -> None:
        left = self._ledger.orders.after - self._passed
        self._passed += len(data)
        if len(data) <= left:
            self._down.sendall(data)
            return
        if left > 0:
            self._down.sendall(data[:left])
            _until_sent(self._down)
        self._ledger.hit(size=max(0, left))
        reset(self._down)
        raise OSError("aborted")

    _passed = 0

    # -- requests

    def _status(self) -> None:
        ledger, head = self._ledger, b""
        self._down.settimeout(CONNECT_S)
        while b"\r\n\r\n" not in head and len(head) < _HEAD and (not head or _may_be_http(head)):
            if not (piece := self._down.recv(CHUNK)):
                break
            head += piece
        self._down.settimeout(None)
        if not _REQUEST.match(head) or not ledger.draws():
            self._join(head, self._pass())
            return
        body = f"{ledger.orders.status} by a fault\n"
        answer = f"HTTP/1.1 {ledger.orders.status} Fault\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\n"
        ledger.hit(size=len(body))
        self._down.sendall(f"{answer}Connection: close\r\n\r\n{body}".encode())
        self._down.shutdown(socket.SHUT_WR)
        self._drain(1.0)

    # -- TLS

    def _tls(self, do: str, face: Face | None) -> None:
        ledger, first = self._ledger, b""
        hello: tlshello.Hello | bool = True
        while hello is True and (piece := self._down.recv(CHUNK)):
            first += piece
            hello = tlshello.read(first)
        if not isinstance(hello, tlshello.Hello) or not ledger.draws(hello.name):
            self._join(first, self._pass())
        elif do == "certificate" and face is not None:
            self._up = face.serve(self._down, first, hello.name, lambda: self._relay.connect(self._down), ledger)
        elif ledger.orders.delay is None:
            began = time.monotonic()
            ledger.hit()
            how = self._drain(None)
            ledger.outcome(f"the client {how} after {_rounded(time.monotonic() - began)} s")
        else:
            self._asked.set()
            self._join(first, self._late_hello)

    def _late_hello(self, data: bytes) -> None:
        if self._asked.is_set():
            self._asked.clear()
            held = self._ledger.hold()
            time.sleep(held)
            self._ledger.hit(held, len(data))
        self._down.sendall(data)

    # -- the plain way

    def _join(self, first: bytes, give: Callable[[bytes], None]) -> None:
        up = self._up = self._relay.connect(self._down)
        there = threading.Thread(target=self._requests, args=(first, up), daemon=True)
        there.start()
        try:
            while data := up.recv(CHUNK):
                give(data)
            with contextlib.suppress(OSError):
                self._down.shutdown(socket.SHUT_WR)
        except OSError:
            reset(self._down)
        there.join()

    def _requests(self, first: bytes, up: socket.socket) -> None:
        watch_turns = self._ledger.orders.do == "first-byte"
        try:
            data = first or self._down.recv(CHUNK)
            while data:
                if watch_turns:
                    self._asked.set()
                up.sendall(data)
                data = self._down.recv(CHUNK)
            up.shutdown(socket.SHUT_WR)
        except OSError:
            with contextlib.suppress(OSError):
                up.shutdown(socket.SHUT_RDWR)

    def _drain(self, seconds: float | None) -> str:
        """Read until the client ends; how it did."""
        self._down.settimeout(seconds)
        try:
            while self._down.recv(CHUNK):
                pass
            return "closed the connection"
        except TimeoutError:
            return "stayed"
        except OSError:
            return "reset the connection"


def reset(connection: socket.socket) -> None:
    """Close it with a RST, at once."""
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        connection.shutdown(socket.SHUT_RD)
    with contextlib.suppress(OSError):
        connection.close()


def _until_sent(connection: socket.socket, seconds: float = 1.0) -> None:
    """Until the peer has acknowledged everything: a reset throws away what is still to be sent (SIOCOUTQ, tcp(7))."""
    import fcntl

    end = time.monotonic() + seconds
    while time.monotonic() < end:
        waiting = struct.unpack("i", fcntl.ioctl(connection.fileno(), 0x5411, b"\0" * 4))[0]
        if not waiting:
            time.sleep(0.01)  # the peer's process reads it before the reset comes
            return
        time.sleep(0.002)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=AT_ONCE)


def _may_be_http(head: bytes) -> bool:
    line = head.partition(b"\r\n")
    return bool(_REQUEST.match(head)) or (not line[1] and len(head) < 8192 and head[:1].isupper())


def _rounded(seconds: float) -> str:
    return f"{seconds:.0f}" if seconds >= 10 else f"{seconds:.1f}"
