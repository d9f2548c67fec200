"""Specs of `process.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "process.kill.main": {"kind": "process.kill", "service": "web", "processes": "main", "signal": "TERM"},
    "process.kill.name": {"kind": "process.kill", "name": "redis-server"},
    "process.kill.init": {"kind": "process.kill", "pid": 1},
}  # fmt: skip
