"""One HTTP request on a new connection: no proxy, no redirect, the body read to its end and thrown away."""

from __future__ import annotations

import http.client
import uuid
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from stormcell.guest.probes.attempts import Attempt
from stormcell.guest.probes.connecting import Deadlined, connect, name_of

_CHUNK = 64 << 10


def attempt(spec: Mapping[str, Any]) -> Attempt:
    """The attempt that `spec` (an HttpProbe as JSON) describes. Its outcome is the status of a whole answer.

    `{n}` in the body or in a header stands for the attempt's number in this measurement, from 1, and `{uuid}` for a
    UUID that is new in every attempt.
    """
    parts = urlsplit(spec["url"])
    host, port = parts.hostname or "", parts.port or 80
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")

    def once(number: int, deadline: float) -> int | str:
        marks = {"{n}": str(number), "{uuid}": str(uuid.uuid4())}
        try:
            connection = connect(host, port, deadline)
        except OSError as error:
            return name_of(error)
        try:
            conversation = http.client.HTTPConnection(host, port)
            conversation.sock = Deadlined(connection, deadline)
            headers = {name: _filled(value, marks) for name, value in spec.get("headers", {}).items()}
            body = spec.get("body")
            sent = _filled(body, marks).encode() if body is not None else None
            conversation.request(spec.get("method", "GET"), target, sent, {"Connection": "close", **headers})
            return _answer(conversation.getresponse())
        except (OSError, http.client.HTTPException, ValueError) as error:
            return name_of(error)
        finally:
            connection.close()

    return once


def _filled(text: str, marks: Mapping[str, str]) -> str:
    for mark, value in marks.items():
        text = text.replace(mark, value)
    return text


def _answer(response: http.client.HTTPResponse) -> int:
    """The status, once the whole body came. `readinto` bounds the memory, whatever lengths the peer announces."""
    buffer = bytearray(_CHUNK)
    while response.readinto(buffer):
        pass
    if response.length:
        raise http.client.IncompleteRead(b"", response.length)
    return response.status
