"""Specs of `file.*` that need no program in the kernel, beside the examples: they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "file.mode.folder": {"kind": "file.mode", "path": "/srv/app", "mode": "0500", "made_anew": "keep"},
    "file.remove.keep": {"kind": "file.remove", "path": "/srv/app", "made_anew": "keep"},
    "file.truncate.empty": {"kind": "file.truncate", "path": "/srv/a.db"},
    "file.lock.fcntl": {"kind": "file.lock", "path": "/srv/LOCK", "how": "fcntl", "shared": True},
}  # fmt: skip
