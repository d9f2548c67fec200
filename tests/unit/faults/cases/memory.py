"""Specs of `memory.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "memory.limit.cgroup": {"kind": "memory.limit", "cgroup": "/sys/fs/cgroup/other/group", "max": "1.5MiB"},
}  # fmt: skip
