"""TCP connections with one deadline for everything, and short names for what goes wrong."""

from __future__ import annotations

import errno
import http.client
import io
import socket
import time
from typing import Any

_ERRNO = {
    errno.ECONNREFUSED: "refused",
    errno.ECONNRESET: "reset",
    errno.EPIPE: "reset",
    errno.ECONNABORTED: "reset",
    errno.ETIMEDOUT: "timeout",
    errno.EHOSTUNREACH: "host_unreachable",
    errno.ENETUNREACH: "net_unreachable",
}


def name_of(error: Exception) -> str:
    """The outcome of an attempt that failed, one word."""
    if isinstance(error, TimeoutError):
        return "timeout"
    if isinstance(error, socket.gaierror):
        return "resolve"
    if isinstance(error, http.client.RemoteDisconnected):
        return "closed"
    if isinstance(error, http.client.IncompleteRead):
        return "incomplete"
    if isinstance(error, http.client.HTTPException):
        return "protocol"
    if isinstance(error, OSError) and error.errno:
        return _ERRNO.get(error.errno) or errno.errorcode.get(error.errno, f"errno:{error.errno}")
    return f"error:{type(error).__name__}"


def remaining(deadline: float) -> float:
    """Seconds left on the monotonic clock. Raises TimeoutError when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def connect(host: str, port: int, deadline: float) -> socket.socket:
    """A new connection to the first address that answers; addresses are tried in the resolver's order."""
    failure: OSError = OSError(errno.EHOSTUNREACH, "no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(remaining(deadline))
            connection.connect(address)
            return connection
        except OSError as error:
            connection.close()
            failure = error
    raise failure


class _Incoming(io.RawIOBase):
    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._connection.settimeout(remaining(self._deadline))
        return self._connection.recv_into(buffer)


class Deadlined:
    """As much of a socket as http.client uses; each operation has only what is left of the one deadline.

    A socket's own timeout starts anew with every byte, so a slow drip would never end.
    """

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def sendall(self, data: Any) -> None:
        """Send it all before the deadline."""
        self._connection.settimeout(remaining(self._deadline))
        self._connection.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """The reading end."""
        return io.BufferedReader(_Incoming(self._connection, self._deadline))

    def close(self) -> None:
        """Nothing: whoever made the connection closes it, once the body was read."""
