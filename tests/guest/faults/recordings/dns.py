"""Recordings of `dns.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "dns.drop": (
        {"kind": "dns.drop"},
        {"setup": ["printf 'nameserver 10.0.2.3\noptions timeout:1 attempts:1\n' > /etc/resolv.conf"],
         "under": ["getent ahosts a.test"]}, ACTED),
    "dns.drop.idle": ({"kind": "dns.drop"}, {"under": ["getent hosts localhost"]}, IDLE),
}  # fmt: skip
