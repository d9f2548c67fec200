"""Recordings of `memory.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, EATER, GROUP, IDLE

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "memory.limit": (
        {"kind": "memory.limit", "service": "victim", "max": "32MiB"},
        {"loads": [EATER], "under": ["sleep 2"], "settle": 1.5}, ACTED),
    "memory.limit.idle": ({"kind": "memory.limit", "cgroup": GROUP, "max": "100MB"}, {"under": ["sleep 0.1"]}, IDLE),
}  # fmt: skip
