"""Specs of `clock.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "clock.jump.forward": {"kind": "clock.jump", "by": "1500ms", "stop_daemons": True},
    "clock.drift.ppm": {"kind": "clock.drift", "by": "-149ppm", "stop_daemons": True},
    "clock.slow.frozen": {"kind": "clock.slow", "speed": "0%", "step": "10ms", "stop_daemons": True},
    "clock.strobe.forward": {"kind": "clock.strobe", "by": "1h", "period": "2s", "stop_daemons": True},
    "clock.leap.delete": {"kind": "clock.leap", "second": "delete", "lead": "5s", "stop_daemons": True},
    "clock.zone.posix": {"kind": "clock.zone", "zone": "Etc/GMT+12"},
    "clock.namespace.commands": {"kind": "clock.namespace", "monotonic": "-2s", "boottime": "1500ms"},
}  # fmt: skip
