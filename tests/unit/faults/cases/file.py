"""Specs of `file.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "file.errno.target": {
        "kind": "file.errno", "path": "/", "operation": "open", "errno": "EMFILE", "service": "web", "limit": 3},
    "file.errno.user": {
        "kind": "file.errno", "path": "/srv/data.db", "operation": ["lock", "rename", "stat"], "errno": "EIO",
        "user": "nobody", "every": 2},
    "file.corrupt.everybody": {"kind": "file.corrupt", "path": "/srv/data", "bytes": 64, "every": 100, "limit": 5},
    "file.corrupt.main": {"kind": "file.corrupt", "path": "/", "service": "web", "processes": "main"},
    "file.delay.pid": {
        "kind": "file.delay", "pid": 9, "path": "/", "operation": ["open", "lock"], "delay": "1s", "every": 3,
        "limit": 9},
    "file.short.read": {
        "kind": "file.short", "user": "nobody", "path": "/srv/x", "operation": "read", "share": "10%", "every": 4,
        "limit": 7},
}  # fmt: skip
