"""Recordings of `syscall.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, GROUP, IDLE, NOT_IN_FORCE

JOIN = f"mkdir -p {GROUP}; echo $$ > {GROUP}/cgroup.procs;"
TOOL = "python3 /root/syscall_tool.py"
VICTIM = f"{JOIN} exec {TOOL}"
SYNCING = (
    "mkdir -p /etc/stormcell; cat > /srv/sync.sh; chmod +x /srv/sync.sh; "
    'echo \'[{"name": "syncing", "command": ["/srv/sync.sh"]}]\' > /etc/stormcell/services.json; '
    "stormcell-guest service load"
)
SYNCS = f"printf '#!/bin/sh\nwhile sleep 0.05; do sync -d /srv/sync.sh; done\n' | ({SYNCING})"
UNDER = "stormcell-guest seccomp run fault"
SETUP = [f"mkdir -p {GROUP}; echo hello > /srv/x; echo hello > /srv/y"]

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "syscall.errno": (
        {"kind": "syscall.errno", "service": "victim", "call": "open", "errno": "EMFILE", "path": "/srv/x",
         "rate": "60%"},
        {"setup": SETUP, "under": [f"{VICTIM} repeat /srv/x 30 0", f"{TOOL} repeat /srv/x 5 0"]}, ACTED),
    "syscall.errno.sockets": (
        {"kind": "syscall.errno", "cgroup": GROUP, "call": ["connect", "send", "accept"], "errno": "ETIMEDOUT",
         "address": ["127.0.0.0/8", "::1"], "remote_port": 7001, "every": 1, "limit": 50},
        {"setup": SETUP, "under": [f"{VICTIM} sockets 127.0.0.1 7001"]}, ACTED),
    "syscall.errno.name": (
        {"kind": "syscall.errno", "name": "sleep", "call": ["stat", "kill"], "errno": "EPERM"},
        {"loads": ["exec sleep 100"], "settle": 0.2}, IDLE),
    "syscall.errno.idle": (
        {"kind": "syscall.errno", "service": "victim", "call": "accept", "errno": "EMFILE", "local_port": 81},
        {"setup": SETUP, "under": [f"{VICTIM} sockets 127.0.0.1 7001"]}, IDLE),
    "syscall.errno.unpinned": (
        {"kind": "syscall.errno", "service": "victim", "call": "open", "errno": "EMFILE"},
        {"setup": SETUP, "under": ["rm /sys/fs/bpf/stormcell/fault/link_file_open"]}, NOT_IN_FORCE),
    "syscall.errno.changed": (
        {"kind": "syscall.errno", "service": "victim", "call": "open", "errno": "EMFILE"},
        {"setup": SETUP, "under": ["stormcell-guest bpf change fault errno=EIO rate=1000000 every=0 limit=0"]},
        NOT_IN_FORCE),
    "syscall.delay": (
        {"kind": "syscall.delay", "service": "victim", "call": ["fsync", "stat"], "delay": "30ms", "jitter": "10ms"},
        {"setup": SETUP, "under": [f"{VICTIM} timed stat /srv/x 5"]}, ACTED),
    "syscall.delay.idle": (
        {"kind": "syscall.delay", "name": "sleep", "call": "fsync", "delay": "30ms"},
        {"loads": ["exec sleep 100"], "settle": 0.2}, IDLE),
    "syscall.seccomp": (
        {"kind": "syscall.seccomp", "service": "syncing", "call": "fsync", "errno": "EIO"},
        {"setup": [SYNCS], "under": ["sleep 0.5"]}, ACTED),
    "syscall.seccomp.commands": (
        {"kind": "syscall.seccomp", "call": ["openat", "getrandom"], "exact": True, "errno": "EACCES", "every": 5,
         "delay": "5ms", "limit": 3},
        {"setup": SETUP, "under": [f"{UNDER} {TOOL} repeat /srv/x 10 0; cat /srv/x"]}, ACTED),
    "syscall.seccomp.idle": (
        {"kind": "syscall.seccomp", "call": "fsync", "errno": "EIO"}, {"under": [f"{UNDER} true; sync"]}, IDLE),
    "syscall.seccomp.killed": (
        {"kind": "syscall.seccomp", "call": "getppid", "errno": "EIO"},
        {"under": ["kill -9 $(cat /sys/fs/cgroup/stormcell/faults/fault/cgroup.procs); sleep 0.2"]},
        NOT_IN_FORCE),
}  # fmt: skip
