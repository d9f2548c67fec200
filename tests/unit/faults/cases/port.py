"""Specs of `port.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "port.ephemeral.leave": {"kind": "port.ephemeral", "leave": 10},
    "port.time-wait.full": {"kind": "port.time-wait", "remote_port": 80, "address": "fd00::1", "count": 101},
    "port.conntrack.one": {"kind": "port.conntrack"},
}  # fmt: skip
