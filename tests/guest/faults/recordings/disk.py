"""Recordings of `disk.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "disk.fill": (
        {"kind": "disk.fill", "path": "/var/tmp"},
        {"under": ["su nobody -s /bin/sh -c 'head -c 300000 /dev/zero > /tmp/full'", "rm -f /tmp/full"]}, ACTED),
    "disk.fill.leave": ({"kind": "disk.fill", "path": "/var/tmp", "leave": "10%"}, {"under": ["df /"]}, IDLE),
    "disk.fill.freed": (
        {"kind": "disk.fill", "path": "/var/tmp"}, {"under": ["rm /var/tmp/.stormcell-fill-fault"]}, NOT_IN_FORCE),
    "disk.inodes": (
        {"kind": "disk.inodes", "path": "/mnt/small"},
        {"setup": ["mkdir -p /mnt/small; mount -t tmpfs -o size=8m,nr_inodes=300 small /mnt/small"],
         "under": ["touch /mnt/small/new"]}, ACTED),
    "disk.inodes.leave": ({"kind": "disk.inodes", "path": "/mnt/small", "leave": 50}, {"under": ["df /"]}, IDLE),
}  # fmt: skip
