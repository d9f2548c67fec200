"""Recordings of `file.*` that need no program in the kernel: what goes on around them, what their receipts must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE

CONF = "/var/tmp/app.conf"
SETUP = {"setup": [f"rm -rf {CONF}; umask 022; seq 1000 > {CONF}"]}
NOBODY = "su nobody -s /bin/sh -c"
FLOCK = "python3 -c 'import fcntl; fcntl.flock(open(\"/var/tmp/app.conf\"), fcntl.LOCK_EX | fcntl.LOCK_NB)'"
FCNTL = 'python3 -c \'import fcntl; fcntl.lockf(open("/var/tmp/app.conf", "r+"), fcntl.LOCK_EX | fcntl.LOCK_NB)\''

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "file.mode": ({"kind": "file.mode", "path": CONF}, {**SETUP, "under": [f"{NOBODY} 'cat {CONF}'"]}, ACTED),
    "file.mode.idle": (
        {"kind": "file.mode", "path": CONF, "mode": "600"}, {**SETUP, "under": [f"cat {CONF} | wc -l"]}, IDLE),
    "file.mode.ended": ({"kind": "file.mode", "path": CONF}, {**SETUP, "under": [f"chmod 640 {CONF}"]}, NOT_IN_FORCE),
    "file.remove": ({"kind": "file.remove", "path": CONF}, {**SETUP, "under": [f"cat {CONF}; stat {CONF}"]}, ACTED),
    "file.remove.idle": ({"kind": "file.remove", "path": CONF}, {**SETUP, "under": ["cat /var/tmp/other"]}, IDLE),
    "file.truncate": (
        {"kind": "file.truncate", "path": CONF, "to": "100B"}, {**SETUP, "under": [f"cat {CONF}"]}, ACTED),
    "file.truncate.idle": ({"kind": "file.truncate", "path": CONF}, {**SETUP, "under": ["cat /etc/hosts"]}, IDLE),
    "file.lock": ({"kind": "file.lock", "path": CONF}, {**SETUP, "under": [FLOCK]}, ACTED),
    "file.lock.fcntl": (
        {"kind": "file.lock", "path": CONF, "how": "fcntl", "shared": True}, {**SETUP, "under": [FCNTL]}, ACTED),
    "file.lock.idle": ({"kind": "file.lock", "path": CONF}, {**SETUP, "under": [FCNTL]}, IDLE),
}  # fmt: skip
