"""Recordings of `io.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, GROUP, IDLE, NOT_IN_FORCE, SERVICE, VOLUME

JOIN = f"mkdir -p {GROUP}"
DIRECT = f"{SERVICE} dd if=/dev/zero of=/srv/data/io bs=64k count=16 oflag=direct"
BUFFERED = f"{SERVICE} dd if=/dev/zero of=/srv/data/io bs=64k count=16"
LIMIT = {"kind": "io.limit", "service": "victim", "path": "/srv/data", "write": "1MiB"}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "io.limit": ({**LIMIT, "write_operations": 100}, {"setup": [VOLUME, JOIN], "under": [DIRECT]}, ACTED),
    "io.limit.buffered": (LIMIT, {"setup": [VOLUME, JOIN], "under": [BUFFERED]}, IDLE),
    "io.limit.name": (
        {"kind": "io.limit", "name": "dd", "path": "/var/tmp", "read": "256KiB", "read_operations": 50},
        {"loads": ["exec dd if=/dev/vda of=/dev/null bs=16k iflag=direct"], "under": ["sleep 1"]}, ACTED),
    "io.limit.removed": (
        LIMIT, {"setup": [VOLUME, JOIN], "under": [f"echo 253:0 wbps=max > {GROUP}/io.max"]}, NOT_IN_FORCE),
}  # fmt: skip
