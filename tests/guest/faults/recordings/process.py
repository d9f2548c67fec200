"""Recordings of `process.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "process.kill": (
        {"kind": "process.kill", "name": "sleep"}, {"loads": ["sleep 1000 & sleep 1001 & wait"]}, ACTED),
    "process.kill.heedless": (
        {"kind": "process.kill", "name": "sleep", "signal": "TERM"},
        {"loads": ["trap '' TERM; exec sleep 1000"]}, IDLE),
    "process.kill.init": ({"kind": "process.kill", "pid": 1}, {}, IDLE),
}  # fmt: skip
