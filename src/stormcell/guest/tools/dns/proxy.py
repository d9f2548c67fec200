"""A DNS proxy for the queries that nftables redirects to it: some get the fault, all others pass and are answered.

Queries go on to the server that the client meant. Our own are marked (SO_MARK), so that the redirection spares them:
a later fault's redirection, which has a higher mark, does not spare those of an earlier one, and both have their say.
"""

from __future__ import annotations

import contextlib
import resource
import select
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from stormcell.guest.loop import Loop, Timer
from stormcell.guest.tools.dns.judge import Judge
from stormcell.guest.tools.net.conntrack import Conntrack

HERE = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
"""Where `redirect` leads what this machine sends (nf_nat_redirect.c)."""
WAIT_S = 15.0
AT_ONCE = 512
LARGEST = 65535
_CAME = select.EPOLLIN | select.EPOLLERR
_SO_MARK, _SO_ORIGINAL_DST = 36, 80

Address = tuple[str, int]
Original = Callable[[Address, Address], Address | None]


@dataclass
class Flight:
    """One query on its way to the server."""

    up: socket.socket
    down: socket.socket
    client: Address
    query: bytes
    hold: float
    hit: bool
    deadline: Timer | None = None


class Proxy:
    """Bound when it is made, works in `run`. `original` says where a datagram was going."""

    def __init__(self, judge: Judge, port: int, mark: int, original: Original | None = None) -> None:
        self._judge = judge
        self._mark = mark
        self._original = original or _from_kernel()
        self._udp = [_bound(family, address, port, socket.SOCK_DGRAM) for family, address in HERE]
        self._tcp = [_bound(family, address, port, socket.SOCK_STREAM) for family, address in HERE]
        self._own = {(address, port) for _, address in HERE}
        self._flights: dict[int, Flight] = {}
        self._threads = threading.BoundedSemaphore(AT_ONCE)
        self._loop = Loop(lambda error: None)

    def run(self) -> None:
        """Until the process ends."""
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * AT_ONCE), hard))
        threading.stack_size(256 << 10)
        for udp in self._udp:
            udp.setblocking(False)
            self._loop.watch(udp.fileno(), lambda _, udp=udp: self._datagrams(udp))  # type: ignore[misc]
        for tcp in self._tcp:
            threading.Thread(target=self._accept, args=(tcp,), daemon=True).start()
        self._loop.run()

    # -- UDP: one loop, a socket for each query on its way

    def _datagrams(self, udp: socket.socket) -> None:
        while True:
            try:
                query, client = udp.recvfrom(LARGEST)
            except BlockingIOError:
                return
            except OSError:
                continue
            sentence = self._judge.judge(query, client[1])
            if sentence.reply is not None:
                _send(udp, sentence.reply, client)
            else:
                self._forward(Flight(self._upstream(udp.family, socket.SOCK_DGRAM), udp, client, query,
                                     sentence.hold, sentence.hit))  # fmt: skip

    def _forward(self, flight: Flight) -> None:
        here = flight.down.getsockname()[:2]
        server = self._original(here, flight.client[:2]) if len(self._flights) < AT_ONCE else None
        try:
            if server is None or server in self._own:
                raise OSError("there is no way to know whom this query is for")
            flight.up.setblocking(False)
            flight.up.connect(server)
            flight.up.send(flight.query)
        except OSError:
            flight.up.close()
            self._judge.count("dropped")
            return
        number = flight.up.fileno()
        self._flights[number] = flight
        flight.deadline = self._loop.after(WAIT_S, lambda: self._unanswered(flight))
        self._loop.watch(
            number, lambda events: self._replied(flight) if events & select.EPOLLIN | select.EPOLLERR else None
        )

    def _replied(self, flight: Flight) -> None:
        try:
            reply = flight.up.recv(LARGEST)
        except BlockingIOError:
            return
        except OSError:
            self._unanswered(flight)
            return
        self._land(flight)
        if not flight.hit:
            self._judge.count("passed_answered")  # first: whoever has the answer finds it counted
            _send(flight.down, reply, flight.client)
            return
        came = time.monotonic()

        def late() -> None:
            self._judge.came_late(flight.query, flight.client[1], time.monotonic() - came)
            _send(flight.down, reply, flight.client)

        self._loop.after(flight.hold, late)

    def _unanswered(self, flight: Flight) -> None:
        if self._land(flight) and not flight.hit:
            self._judge.count("passed_unanswered")

    def _land(self, flight: Flight) -> bool:
        number = flight.up.fileno()
        if self._flights.pop(number, None) is None:
            return False
        if flight.deadline is not None:
            flight.deadline.cancel()
        self._loop.unwatch(number)
        flight.up.close()
        return True

    # -- TCP: two threads for each connection

    def _accept(self, tcp: socket.socket) -> None:
        while True:
            try:
                down, client = tcp.accept()
            except OSError:
                time.sleep(0.05)
                continue
            if not self._threads.acquire(blocking=False):
                down.close()
                self._judge.count("dropped")
                continue
            threading.Thread(target=self._connection, args=(down, client), daemon=True).start()

    def _connection(self, down: socket.socket, client: Address) -> None:
        stream = _Stream(self, down, client)
        try:
            stream.serve()
        except OSError:
            pass
        finally:
            stream.close()
            self._threads.release()

    def connect(self, down: socket.socket) -> socket.socket:
        """A marked connection to where this one was going. Raises OSError."""
        server = original_of(down)
        if server in self._own:
            raise OSError("a connection to the proxy itself")
        up = self._upstream(down.family, socket.SOCK_STREAM)
        up.settimeout(WAIT_S)
        try:
            up.connect(server)
        except OSError:
            up.close()
            raise
        return up

    @property
    def judge(self) -> Judge:
        """Of this proxy."""
        return self._judge

    def _upstream(self, family: int, kind: int) -> socket.socket:
        made = socket.socket(family, kind | socket.SOCK_CLOEXEC)
        if self._mark:
            made.setsockopt(socket.SOL_SOCKET, _SO_MARK, self._mark)
        return made


class _Stream:
    """One TCP connection of a client: messages with their length before them, to and fro."""

    def __init__(self, proxy: Proxy, down: socket.socket, client: Address) -> None:
        self._proxy = proxy
        self._down = down
        self._client = client
        self._up: socket.socket | None = None
        self._write = threading.Lock()
        self._waiting: dict[int, tuple[bytes, float, bool]] = {}

    def serve(self) -> None:
        """Until the client closes."""
        judge = self._proxy.judge
        while (query := _message(self._down)) is not None:
            sentence = judge.judge(query, self._client[1])
            if sentence.reply is not None:
                self._give(sentence.reply)
                continue
            try:
                if self._up is None:
                    self._up = self._proxy.connect(self._down)
                    threading.Thread(target=self._replies, args=(self._up,), daemon=True).start()
                self._waiting[int.from_bytes(query[:2], "big")] = (query, sentence.hold, sentence.hit)
                self._up.sendall(struct.pack(">H", len(query)) + query)
            except OSError:
                judge.count("passed_unanswered")
                return

    def _replies(self, up: socket.socket) -> None:
        judge = self._proxy.judge
        try:
            while (reply := _message(up)) is not None:
                query, hold, hit = self._waiting.pop(int.from_bytes(reply[:2], "big"), (b"", 0.0, False))
                if hit:
                    time.sleep(hold)
                    judge.came_late(query, self._client[1], hold)
                else:
                    judge.count("passed_answered")
                self._give(reply)
        except OSError:
            pass
        finally:
            for _, _, hit in self._waiting.values():
                if not hit:
                    judge.count("passed_unanswered")
            with contextlib.suppress(OSError):
                self._down.shutdown(socket.SHUT_RDWR)

    def _give(self, message: bytes) -> None:
        with self._write:
            self._down.sendall(struct.pack(">H", len(message)) + message)

    def close(self) -> None:
        """Both ends."""
        for end in (self._up, self._down):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()


def original_of(connection: socket.socket) -> Address:
    """Where a redirected TCP connection was going. Raises OSError when it was not redirected."""
    if connection.family == socket.AF_INET:
        raw = connection.getsockopt(socket.SOL_IP, _SO_ORIGINAL_DST, 16)
        return socket.inet_ntop(socket.AF_INET, raw[4:8]), struct.unpack_from(">H", raw, 2)[0]
    raw = connection.getsockopt(socket.IPPROTO_IPV6, _SO_ORIGINAL_DST, 28)
    return socket.inet_ntop(socket.AF_INET6, raw[8:24]), struct.unpack_from(">H", raw, 2)[0]


def _from_kernel() -> Original:
    table = Conntrack()

    def original(here: Address, client: Address) -> Address | None:
        try:
            return table.original(socket.IPPROTO_UDP, here, client)
        except OSError:
            return None

    return original


def _bound(family: int, address: str, port: int, kind: int) -> socket.socket:
    made = socket.socket(family, kind | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, int(kind == socket.SOCK_STREAM))
        made.bind((address, port))
        if kind == socket.SOCK_STREAM:
            made.listen(128)
    except OSError:
        made.close()
        raise
    return made


def _send(udp: socket.socket, message: bytes, client: Address) -> None:
    with contextlib.suppress(OSError):
        udp.sendto(message, client)


def _message(connection: socket.socket) -> bytes | None:
    """One message with its length before it, None at the end."""
    head = _exactly(connection, 2)
    return None if head is None else _exactly(connection, struct.unpack(">H", head)[0])


def _exactly(connection: socket.socket, count: int) -> bytes | None:
    got = b""
    while len(got) < count:
        if not (piece := connection.recv(count - len(got))):
            return None
        got += piece
    return got
