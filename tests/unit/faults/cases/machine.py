"""Specs of `machine.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "machine.crash.panic": {"kind": "machine.crash", "mode": "panic", "boot": False},
    "machine.pause.runs": {"kind": "machine.pause", "for": "1500ms", "clock": "runs", "delay": "1s"},
    "machine.slow.period": {"kind": "machine.slow", "speed": "60%", "period": "50ms"},
}  # fmt: skip
