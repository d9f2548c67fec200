"""Specs of `memory.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "memory.limit.cgroup": {"kind": "memory.limit", "cgroup": "/sys/fs/cgroup/other/group", "max": "1.5MiB"},
    "memory.limit.high": {"kind": "memory.limit", "user": "postgres", "high": "32MiB", "max": "64MiB"},
    "memory.hold.file": {"kind": "memory.hold", "size": "1MiB", "pages": "file", "path": "/srv"},
    "memory.hold.pid": {"kind": "memory.hold", "size": "10MB", "pages": "locked", "pid": 4711},
    "memory.leak.fast": {"kind": "memory.leak", "by": "64KiB", "every": "10ms", "most": "1GiB", "port": 5432},
    "memory.oom.any": {"kind": "memory.oom", "name": "redis-server", "victim": "any", "room": "32MiB"},
    "memory.global-oom.stressor": {"kind": "memory.global-oom", "victim": "stressor"},
    "memory.swap-off.one": {"kind": "memory.swap-off", "device": "/dev/zram0"},
    "memory.drop-caches.slab": {"kind": "memory.drop-caches", "what": "slab", "sync": False},
}  # fmt: skip
