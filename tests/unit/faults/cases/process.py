"""Specs of `process.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "process.kill.main": {"kind": "process.kill", "service": "web", "processes": "main", "signal": "TERM"},
    "process.kill.name": {"kind": "process.kill", "name": "redis-server"},
    "process.pids.max": {"kind": "process.pids", "pid": 4711, "max": 20},
    "process.stop.freeze": {"kind": "process.stop", "port": 5432, "how": "freeze"},
    "process.signal.count": {
        "kind": "process.signal", "name": "nginx", "signal": "USR1", "rate": "90/m", "count": 10,
    },
    "process.descriptors.guest": {"kind": "process.descriptors", "leave": 100},
    "process.threads.name": {"kind": "process.threads", "name": "java", "leave": 8},
    "process.zombies.service": {"kind": "process.zombies", "count": 1, "service": "web"},
}  # fmt: skip
