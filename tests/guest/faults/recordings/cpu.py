"""Recordings of `cpu.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, SPINNER

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "cpu.limit": (
        {"kind": "cpu.limit", "service": "victim", "percent": "20%"},
        {"loads": [SPINNER], "under": ["sleep 2"]}, ACTED),
    "cpu.limit.idle": ({"kind": "cpu.limit", "service": "victim", "percent": "20%"}, {"under": ["sleep 0.1"]}, IDLE),
}  # fmt: skip
