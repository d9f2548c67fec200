"""Who answers: short attempts to connect, all at once."""

from __future__ import annotations

import errno
import json
import selectors
import socket
import sys
import time
from typing import NamedTuple

REFUSED = {errno.ECONNREFUSED: "refused", errno.ECONNRESET: "refused"}


class Attempt(NamedTuple):
    """One socket that waits for an answer."""

    name: str
    handle: socket.socket
    began: float


def try_all(seconds: float, targets: list[str]) -> dict[str, str]:
    """`tcp/ADDRESS/PORT` or `udp/...` each to what came of it within `seconds`; a name is tried at each address."""
    found: dict[str, str] = {}
    waiting = selectors.DefaultSelector()
    for target in targets:
        protocol, host, port = target.split("/")
        for family, address in _addresses(host, int(port)):
            name = target if address[0] == host else f"{target} ({address[0]})"
            found[name] = "no answer"
            answer = _begin(waiting, protocol, family, address, name)
            if answer:
                found[name] = answer
    end = time.monotonic() + seconds
    while waiting.get_map() and (left := end - time.monotonic()) > 0:
        for key, _ in waiting.select(left):
            attempt: Attempt = key.data
            found[attempt.name] = _outcome(attempt)
            waiting.unregister(attempt.handle)
            attempt.handle.close()
    for key in list(waiting.get_map().values()):
        key.data.handle.close()
    waiting.close()
    return found


def _addresses(host: str, port: int) -> list[tuple[int, tuple[str, int]]]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return sorted({(int(family), (str(address[0]), port)) for family, _, _, _, address in found})


def _begin(
    waiting: selectors.BaseSelector, protocol: str, family: int, address: tuple[str, int], name: str
) -> str | None:
    """An attempt under way, or what it came to at once."""
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    handle = socket.socket(family, kind)
    handle.setblocking(False)
    began = time.monotonic()
    try:
        code = handle.connect_ex(address)
        if protocol == "udp" and not code:
            handle.send(b"\0")
    except OSError as error:
        code = error.errno or 0
    if code not in (0, errno.EINPROGRESS):
        handle.close()
        return REFUSED.get(code, errno.errorcode.get(code, str(code)))
    waiting.register(
        handle,
        selectors.EVENT_WRITE if protocol == "tcp" else selectors.EVENT_READ,
        Attempt(name, handle, began),
    )
    return None


def _outcome(attempt: Attempt) -> str:
    code = attempt.handle.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if code:
        return REFUSED.get(code, errno.errorcode.get(code, str(code)))
    return f"answered in {round((time.monotonic() - attempt.began) * 1000)} ms"


def main(argv: list[str]) -> int:
    """`reach SECONDS PROTOCOL/HOST/PORT...`."""
    try:
        answers = try_all(float(argv[0]), argv[1:])
    except (IndexError, ValueError) as error:
        sys.stderr.write(f"usage: stormcell-guest reach SECONDS tcp|udp/HOST/PORT...: {error}\n")
        return 2
    sys.stdout.write(json.dumps(answers) + "\n")
    return 0
