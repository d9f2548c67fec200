"""Commands that try a network in the guest, and what they said."""

from __future__ import annotations

import re

TOOL = "python3 /root/tool.py"


def connect(host: str = "127.0.0.1", port: int = 9000, timeout: int = 10, times: int = 1) -> str:
    """The quickest of so many attempts, one after the other: a busy host makes one of them slow, not each."""
    attempt = f"connect {host} {port} {timeout}"
    return f"{TOOL} {attempt}" if times == 1 else f"{TOOL} quickest {times} {attempt}"


def ping(host: str = "127.0.0.1", count: int = 4, wait: int = 5, every: float = 0.1) -> str:
    """`wait` is for the first answer: how long a ping takes that gets none."""
    return f"ping {'-6 ' if ':' in host else ''}-c {count} -i {every} -W {wait} -q {host}"


def settled(path: str, idle: int = 3) -> str:
    """Shell text: what a `sink` counted, once nothing came for `idle` times 0.2 s from now on."""
    look = f"read different every late idle < {path}"
    return f"{look}; end=$((idle + {idle})); until {look}; [ $idle -ge $end ]; do sleep 0.1; done; cat {path}"


def how(said: str) -> tuple[str, int]:
    """`OK 12` as ("OK", 12): what a connection came to, and milliseconds."""
    word, milliseconds = said.split()
    return word, int(milliseconds)


def rtt(said: str) -> float:
    """The quickest round trip of a ping, in milliseconds: none was quicker, and the others may have met a busy host."""
    match = re.search(r"= ([\d.]+)/[\d.]+/", said)
    assert match, said
    return float(match[1])


def lost(said: str) -> float:
    """Percent of the pings."""
    match = re.search(r"([\d.]+)% packet loss", said)
    assert match, said
    return float(match[1])
