"""Recordings of `machine.*` but crashes: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "machine.link": ({"kind": "machine.link"}, {"under": ["sleep 0.2"]}, ACTED),
    "machine.pause": ({"kind": "machine.pause", "for": "500ms", "delay": "0s"}, {}, ACTED),
    "machine.pause.runs": ({"kind": "machine.pause", "for": "500ms", "clock": "runs", "delay": "0s"}, {}, ACTED),
    "machine.slow": ({"kind": "machine.slow", "speed": "40%"}, {"under": ["sleep 0.3"]}, ACTED),
}  # fmt: skip
