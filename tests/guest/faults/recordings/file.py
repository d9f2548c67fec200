"""Recordings of `file.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE

TOOL = "python3 /root/syscall_tool.py"

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "file.errno": (
        {"kind": "file.errno", "path": "/srv/data", "operation": ["read", "write", "rename"], "errno": "EIO"},
        {"setup": [f"{TOOL} prepare /srv/data"], "under": [f"{TOOL} everything /srv/data"]}, ACTED),
    "file.errno.idle": (
        {"kind": "file.errno", "path": "/srv/data/file", "operation": "open", "errno": "EIO", "user": "nobody"},
        {"setup": [f"{TOOL} prepare /srv/data"], "under": [f"{TOOL} everything /srv/data"]}, IDLE),
    "file.corrupt": (
        {"kind": "file.corrupt", "path": "/srv/zeros", "bytes": 2, "rate": "90%"},
        {"setup": ["head -c 40000 /dev/zero > /srv/zeros"], "under": [f"{TOOL} changed /srv/zeros 1000"]}, ACTED),
    "file.corrupt.idle": (
        {"kind": "file.corrupt", "path": "/srv/zeros", "user": "nobody"},
        {"under": [f"{TOOL} changed /srv/zeros 1000"]}, IDLE),
}  # fmt: skip
