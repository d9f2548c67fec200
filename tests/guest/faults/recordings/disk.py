"""Recordings of `disk.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE, VOLUME

NOBODY = "su nobody -s /bin/sh -c"
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
    "disk.quota": (
        {"kind": "disk.quota", "path": "/srv/data", "leave": "64KiB", "leave_files": 3},
        {"setup": [VOLUME, f"chmod 777 /srv/data; {NOBODY} 'head -c 9000 /dev/zero > /srv/data/mine'"],
         "under": [f"{NOBODY} 'head -c 300000 /dev/zero > /srv/data/full'", "rm -f /srv/data/full"]}, ACTED),
    "disk.quota.folder": (
        {"kind": "disk.quota", "path": "/srv/data/folder", "of": "folder", "leave_files": 2},
        {"setup": [VOLUME, "mkdir -m 777 -p /srv/data/folder"],
         "under": [f"{NOBODY} 'touch /srv/data/folder/1 /srv/data/folder/2 /srv/data/folder/3'"]}, ACTED),
    "disk.quota.idle": (
        {"kind": "disk.quota", "path": "/srv/data", "leave": "0B"}, {"setup": [VOLUME], "under": ["df /"]}, IDLE),
}  # fmt: skip
