"""Specs of `io.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "io.limit.every": {
        "kind": "io.limit", "path": "/srv", "cgroup": "/sys/fs/cgroup/a", "read": "1MiB", "write": "16KiB",
        "read_operations": 1, "write_operations": 1_000_000,
    },
    "io.limit.name": {"kind": "io.limit", "path": "/srv", "name": "redis-server", "read": "64KiB"},
}  # fmt: skip
