"""Services that have to start anew: what a running process cannot be put under, it is started under."""

from __future__ import annotations

import json
import socket
from typing import Any

from stormcell.guest.supervisor import SOCKET

ANSWER_S = 60.0


def exists(service: str) -> None:
    """Raises ValueError when there is no service of that name."""
    if service not in ask("status", None)["services"]:
        raise ValueError(f"there is no service '{service}'")


def again(service: str) -> None:
    """Stop and start it; returns when its state is settled. Raises ValueError."""
    for op in ("stop", "start"):
        answer = ask(op, service)
        if "error" in answer:
            raise ValueError(f"service {service}: {answer['error']}")


def ask(op: str, name: str | None, within: float = ANSWER_S) -> dict[str, Any]:
    """The supervisor's answer. Raises OSError."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(within)
        connection.connect(SOCKET)
        connection.sendall(json.dumps({"op": op, "name": name}).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer = json.loads(answers.readline() or b'{"error": "the supervisor hung up"}')
    return answer if isinstance(answer, dict) else {}
