"""`stormcell-guest service status|load|start NAME|stop NAME`: speaks to the supervisor, prints its answer."""

from __future__ import annotations

import argparse
import json
import socket
from collections.abc import Sequence

from stormcell.guest.supervisor import SOCKET


def main(argv: Sequence[str]) -> int:
    """Exit code 0 when every service named (all, for load) is running; 1 otherwise. status is always 0."""
    parser = argparse.ArgumentParser(prog="stormcell-guest service", description=__doc__)
    parser.add_argument("op", choices=("status", "load", "start", "stop"))
    parser.add_argument("name", nargs="?")
    options = parser.parse_args(argv)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.connect(SOCKET)
        connection.sendall(json.dumps({"op": options.op, "name": options.name}).encode() + b"\n")
        with connection.makefile("rb") as answers:
            answer = json.loads(answers.readline() or b'{"error": "the supervisor hung up"}')
    print(json.dumps(answer))  # noqa: T201 - the answer is this command's output
    if "error" in answer:
        return 1
    if options.op == "status":
        return 0
    wanted = "stopped" if options.op == "stop" else "running"
    services = answer["services"]
    named = [options.name] if options.name else list(services)
    return int(any(services[name]["state"] != wanted for name in named))
