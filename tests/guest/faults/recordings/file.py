"""Recordings of `file.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, GROUP, IDLE

JOIN = f"mkdir -p {GROUP}; echo $$ > {GROUP}/cgroup.procs;"
SETUP = [f"mkdir -p {GROUP}; echo hello > /srv/x; echo hello > /srv/y"]
STARTED = "grep -q portions $(pgrep -x python3 | sed 's,.*,/proc/&/cmdline,') 2> /dev/null"
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
    "file.delay": (
        {"kind": "file.delay", "service": "victim", "path": "/srv/x", "operation": "read", "delay": "30ms", "every": 2},
        {"setup": SETUP, "under": [f"{JOIN} {TOOL} timed read /srv/x 6"]}, ACTED),
    "file.delay.idle": (
        {"kind": "file.delay", "service": "victim", "path": "/srv/y", "operation": "read", "delay": "30ms"},
        {"setup": SETUP, "under": [f"{JOIN} {TOOL} timed read /srv/x 6"]}, IDLE),
    "file.short": (
        {"kind": "file.short", "cgroup": GROUP, "path": "/srv/x", "share": "40%", "rate": "90%"},
        {"setup": SETUP, "loads": [f"{JOIN} exec {TOOL} later /srv/go portions /srv/x 10"], "ready": STARTED,
         "under": ["touch /srv/go; sleep 2; rm /srv/go"]}, ACTED),
    "file.short.idle": (
        {"kind": "file.short", "cgroup": GROUP, "path": "/srv/y", "operation": "write"},
        {"setup": SETUP, "loads": [f"{JOIN} exec {TOOL} later /srv/go portions /srv/x 10"], "ready": STARTED,
         "under": ["touch /srv/go; sleep 2; rm /srv/go"]}, IDLE),
}  # fmt: skip
