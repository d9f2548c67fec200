"""Specs of `disk.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "disk.fill.leave": {"kind": "disk.fill", "path": "/srv/data/", "leave": "64KiB", "user": "root"},
    "disk.inodes.share": {"kind": "disk.inodes", "path": "/srv", "leave": "2.5%"},
    "disk.quota.folder": {
        "kind": "disk.quota", "path": "/srv/a", "of": "folder", "user": "app", "leave": "1MiB", "leave_files": 0,
    },
}  # fmt: skip
