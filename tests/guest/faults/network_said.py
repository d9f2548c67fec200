"""Commands that try a network in the guest, and what they said."""

from __future__ import annotations

import re

TOOL = "python3 /root/tool.py"


def connect(host: str = "127.0.0.1", port: int = 9000, timeout: int = 3) -> str:
    return f"{TOOL} connect {host} {port} {timeout}"


def ping(host: str = "127.0.0.1", count: int = 4) -> str:
    return f"ping {'-6 ' if ':' in host else ''}-c {count} -i 0.1 -W 1 -q {host}"


def how(said: str) -> tuple[str, int]:
    """`OK 12` as ("OK", 12): what a connection came to, and milliseconds."""
    word, milliseconds = said.split()
    return word, int(milliseconds)


def rtt(said: str) -> float:
    """The mean round trip of a ping, in milliseconds."""
    match = re.search(r"= [\d.]+/([\d.]+)/", said)
    assert match, said
    return float(match[1])


def lost(said: str) -> float:
    """Percent of the pings."""
    match = re.search(r"([\d.]+)% packet loss", said)
    assert match, said
    return float(match[1])
