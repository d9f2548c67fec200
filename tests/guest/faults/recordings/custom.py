"""Recordings of `custom.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from stormcell.faults import CATALOGUE
from tests.guest.faults.recording import ACTED, IDLE

LATE = CATALOGUE["custom.commands"].example
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "custom.commands": (LATE, {"under": ["ping -c 2 -i 0.2 127.0.0.1"]}, ACTED),
    "custom.commands.idle": (LATE, {"under": ["true"]}, IDLE),
    "custom.commands.another": ({**LATE, "shows": "tc qdisc show dev lo | grep -q 'delay 300ms'"},
                                {"under": ["ping -c 1 127.0.0.1"]}, (False, True, True)),
}  # fmt: skip
