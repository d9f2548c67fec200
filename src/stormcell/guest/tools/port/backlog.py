"""`stormcell-guest backlog`: fill the queue of a listening socket with connections that never get beyond their SYN.

Our clients send from ports of their own, and nftables drops what they are answered: so each stays half-open in the
queue of the server (inet_csk_reqsk_queue_is_full), and with SYN cookies off the next client's SYN is dropped.
"""

from __future__ import annotations

import contextlib
import errno
import resource
import socket
import struct
import time
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import background, common
from stormcell.guest.tools.net.netlink import Netlink

SYSCTL = "/proc/sys/net/ipv4"
SETTINGS = {"tcp_syncookies": "0", "tcp_max_syn_backlog": "1048576"}
"""Without cookies a quarter of tcp_max_syn_backlog is kept for known peers (tcp_conn_request), so it is raised."""
PORTS = range(62000, 65536)
"""Ours: above the range that the kernel takes by itself."""
FILLED_S = 20.0
SETTLE_S = 0.01
AGAIN_S = 0.5
_SYN_RECV, _LISTEN = 3, 10  # include/net/tcp_states.h
_SOCK_DIAG, _SOCK_DESTROY, _NETLINK_SOCK_DIAG = 20, 21, 4  # linux/sock_diag.h
_REQUEST, _ID = struct.Struct("=BBBxI"), 48  # linux/inet_diag.h: inet_diag_req_v2 without its inet_diag_sockid
_COUNTED = ("ListenDrops", "ListenOverflows", "TCPReqQFullDrop")


class Filler:
    """Half-open connections to every listening socket of one port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: dict[int, socket.socket] = {}
        self._next = 0
        self.levels: dict[str, int] = {}

    def fill(self) -> None:
        """Until every queue takes no more. Raises ValueError when one does not become full in time."""
        deadline = time.monotonic() + FILLED_S
        for host, limit in listeners(self._port):
            before = -1
            while (now := half_open(self._port, host)) <= limit and not (now == before == limit):
                if time.monotonic() > deadline:
                    raise ValueError(f"the queue of {host} port {self._port} takes {limit} and has no more than {now}")
                self._raise(host, limit + 1)  # full at the limit or one beyond it, by the version of the kernel
                before = now
                time.sleep(SETTLE_S)
            self.levels[host] = now

    def keep(self) -> None:
        """At that level, for ever: the kernel forgets a half-open connection after a minute."""
        while True:
            time.sleep(AGAIN_S)
            for host, level in self.levels.items():
                self._raise(host, level)

    def _raise(self, host: str, level: int) -> None:
        for _ in range(level - half_open(self._port, host)):
            self._open(host)

    def _open(self, host: str) -> None:
        for _ in PORTS:
            self._next = (self._next + 1) % len(PORTS)
            if (old := self._sockets.pop(self._next, None)) is not None:
                old.close()
            made = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
            made.setblocking(False)
            try:
                made.bind((host, PORTS[self._next]))
                made.connect((host, self._port))
            except BlockingIOError:
                self._sockets[self._next] = made
                return
            except OSError as error:
                made.close()
                if error.errno != errno.EADDRINUSE:
                    raise
        raise OSError(errno.EADDRINUSE, f"all ports from {PORTS[0]} to {PORTS[-1]} are taken")


def fill(fault: str, port: str) -> dict[str, Any]:
    """The queue is full when this returns, and is kept full. Raises LookupError when nobody listens."""
    number = int(port)
    if not listeners(number):
        raise LookupError(f"nobody listens on port {port} in this machine")
    soft = min(resource.getrlimit(resource.RLIMIT_NOFILE)[1], 2 * len(PORTS))
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    for name, value in SETTINGS.items():
        write_file(f"{SYSCTL}/{name}", f"{value}\n")
    filler = Filler(number)
    filler.fill()
    common.put_mark(f"{fault}.backlog", {"levels": filler.levels, "counters": statistics()})
    background.start(fault, filler.keep, lambda request: True)
    return {"levels": filler.levels}


def clear(fault: str, port: str, *settings: str) -> None:
    """End our clients, take what they left out of the queue, put the settings back."""
    background.stop(fault)
    for name, value in zip(SETTINGS, settings, strict=True):
        write_file(f"{SYSCTL}/{name}", f"{value}\n")
    _forget(int(port))
    common.drop_mark(f"{fault}.backlog")


def show(fault: str, port: str) -> dict[str, Any]:
    """Queues, settings, and what the kernel dropped since the queue was full."""
    at_act = common.get_mark(f"{fault}.backlog")
    now = statistics()
    return {
        "queues": queues(int(port), at_act["levels"] if at_act else {}),
        "settings": {name: (common.read_text(f"{SYSCTL}/{name}") or "").strip() for name in SETTINGS},
        "running": background.ask(fault, {}) is True,
        "left": background.is_there(fault) or at_act is not None,
        "dropped": {name: now[name] - at_act["counters"][name] for name in _COUNTED} if at_act else {},
    }


def queues(port: int, levels: dict[str, int]) -> list[dict[str, Any]]:
    """Every listening socket: its half-open connections, how many it says it takes, and how many made it full."""
    return [
        {"address": host, "half_open": half_open(port, host), "limit": limit, "full_at": levels.get(host)}
        for host, limit in listeners(port)
    ]


def listeners(port: int) -> list[tuple[str, int]]:
    """Where our clients reach each socket that listens on the port, and the length of its queue."""
    found: dict[str, int] = {}
    for identity, family, queue in _sockets(port, _LISTEN):
        address = socket.inet_ntop(family, identity[4 : 8 if family == socket.AF_INET else 20])
        reached = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address, address)
        found[reached] = found.get(reached, 0) + queue
    return list(found.items())


def half_open(port: int, host: str) -> int:
    """Connections in the queue, of the family of this address."""
    wanted = socket.AF_INET6 if ":" in host else socket.AF_INET
    return sum(family == wanted for _, family, _ in _sockets(port, _SYN_RECV))


def _sockets(port: int, state: int) -> list[tuple[bytes, int, int]]:
    """Identity, family and the third queue number of each TCP socket with this local port in this state."""
    found: list[tuple[bytes, int, int]] = []
    with Netlink(_NETLINK_SOCK_DIAG) as kernel:
        for family in (socket.AF_INET, socket.AF_INET6):
            body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << state) + bytes(_ID)
            for message in kernel.dump(_SOCK_DIAG, body):
                identity = message.body[4 : 4 + _ID]
                if struct.unpack_from("!H", identity)[0] == port:
                    found.append((identity, family, int(struct.unpack_from("=I", message.body, 4 + _ID + 8)[0])))
    return found


def _forget(port: int) -> None:
    """Take our clients out of the queue; the server would keep each for a minute."""
    with Netlink(_NETLINK_SOCK_DIAG) as kernel:
        for identity, family, _ in _sockets(port, _SYN_RECV):
            if struct.unpack_from("!H", identity, 2)[0] in PORTS:
                body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 1 << _SYN_RECV) + identity
                with contextlib.suppress(FileNotFoundError):
                    kernel.ask(_SOCK_DESTROY, body)


def statistics() -> dict[str, int]:
    """From /proc/net/netstat, whose lines come in pairs of names and numbers."""
    lines = [line.split() for line in (common.read_text("/proc/net/netstat") or "").splitlines()]
    values = {name: int(value) for names, numbers in zip(lines[::2], lines[1::2], strict=False)
              for name, value in list(zip(names, numbers, strict=False))[1:]}  # fmt: skip
    return {name: values.get(name, 0) for name in _COUNTED}


def main(argv: list[str]) -> int:
    """`backlog fill|clear|show`."""
    return common.serve("backlog", {"fill": fill, "clear": clear, "show": show}, argv)
