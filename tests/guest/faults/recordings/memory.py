"""Recordings of `memory.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, EATER, IDLE, NOT_IN_FORCE
from tests.guest.faults.resource_loads import GROUP, SIZED, named, python, sized, there

EATS = "b=[]\nimport time\nwhile len(b) < 48: b.append(bytearray(1<<20)); time.sleep(0.02)\ntime.sleep(100)"
MAKE = f"mkdir -p {GROUP}"
KILL = f"echo 1 > {GROUP}/stormcell-fault/cgroup.kill; sleep 0.1"
NAMED_SIZED = 'open("/proc/self/comm", "w").write("sized")\n' + SIZED.format(20)
ZRAM = (
    "swapon --show=NAME | grep -q zram0 && exit 0; modprobe zram; echo 32M > /sys/block/zram0/disksize; "
    "mkswap /dev/zram0 && swapon -p 5 /dev/zram0"
)
FILLED = "dd if=/dev/zero of=/var/tmp/filled bs=1M count=16 2>/dev/null; sync; cat /var/tmp/filled > /dev/null"

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "memory.limit": (
        {"kind": "memory.limit", "service": "victim", "max": "32MiB"},
        {"loads": [EATER], "under": ["sleep 2"], "settle": 1.5}, ACTED),
    "memory.limit.idle": ({"kind": "memory.limit", "cgroup": GROUP, "max": "100MB"}, {"under": ["sleep 0.1"]}, IDLE),
    "memory.limit.high": (
        {"kind": "memory.limit", "name": "eater", "high": "8MiB", "max": "100MiB"},
        {"loads": [named("eater", EATS)], "under": ["sleep 1"], "settle": 0.5}, ACTED),
    "memory.hold": (
        {"kind": "memory.hold", "service": "victim", "size": "24MiB"},
        {"setup": [MAKE], "under": ["sleep 0.2"]}, ACTED),
    "memory.hold.locked": (
        {"kind": "memory.hold", "size": "12MiB", "pages": "locked"}, {"under": ["sleep 0.1"]}, ACTED),
    "memory.hold.shmem": (
        {"kind": "memory.hold", "name": "sized", "size": "12MiB", "pages": "shmem"},
        {"loads": [python(NAMED_SIZED)], "under": ["sleep 0.1"]}, ACTED),
    "memory.hold.file": (
        {"kind": "memory.hold", "service": "victim", "size": "16MiB", "pages": "file", "path": "/var"},
        {"setup": [MAKE], "under": ["sleep 0.1"]}, ACTED),
    "memory.hold.killed": (
        {"kind": "memory.hold", "service": "victim", "size": "8MiB"}, {"setup": [MAKE], "under": [KILL]}, NOT_IN_FORCE),
    "memory.leak": (
        {"kind": "memory.leak", "service": "victim", "by": "1MiB", "every": "100ms", "most": "64MiB"},
        {"setup": [MAKE], "under": ["sleep 1.5"]}, ACTED),
    "memory.leak.oom": (
        {"kind": "memory.leak", "service": "victim", "by": "4MiB", "every": "50ms", "most": "256MiB"},
        {"setup": [MAKE + f"; echo 64M > {GROUP}/memory.max"],
         "under": [f"sleep 2; echo max > {GROUP}/memory.max"]}, ACTED),
    "memory.leak.killed": (
        {"kind": "memory.leak", "by": "1MiB", "every": "100ms", "most": "64MiB"},
        {"under": ["echo 1 > /sys/fs/cgroup/stormcell/faults/fault/cgroup.kill; sleep 0.2"]}, NOT_IN_FORCE),
    "memory.swap-off": ({"kind": "memory.swap-off"}, {"setup": [ZRAM], "under": ["sleep 0.1"]}, ACTED),
    "memory.swap-off.back": (
        {"kind": "memory.swap-off", "device": "/dev/zram0"},
        {"setup": [ZRAM], "under": ["swapon -p 5 /dev/zram0"]}, NOT_IN_FORCE),
    "memory.oom": (
        {"kind": "memory.oom", "service": "victim"},
        {"loads": [python(sized("sized", 20))], "ready": there("sized"), "under": ["sleep 0.1"]}, ACTED),
    "memory.oom.stressor": (
        {"kind": "memory.oom", "name": "sized", "victim": "stressor", "room": "8MiB"},
        {"loads": [python(NAMED_SIZED)], "under": ["sleep 0.1"]}, ACTED),
    "memory.oom.lifted": (
        {"kind": "memory.oom", "service": "victim", "victim": "any"},
        {"loads": [python(SIZED.format(40))], "under": [f"echo max > {GROUP}/memory.max"]}, (False, True, True)),
    "memory.global-oom": (
        {"kind": "memory.global-oom", "victim": "stressor"}, {"under": ["sleep 0.1"]}, ACTED),
    "memory.global-oom.service": (
        {"kind": "memory.global-oom", "service": "victim", "victim": "target"},
        {"loads": [python(SIZED.format(40))], "under": ["sleep 0.1"]}, ACTED),
    "memory.global-oom.target": (
        {"kind": "memory.global-oom", "name": "sized", "victim": "target"},
        {"loads": [python(NAMED_SIZED)], "under": ["sleep 0.1"]}, ACTED),
    "memory.global-oom.other": (
        {"kind": "memory.global-oom", "name": "sized", "victim": "target"},
        {"loads": [python(NAMED_SIZED), f"echo 1000 > /proc/self/oom_score_adj; {named('bigger', SIZED.format(60))}"],
         "under": ["sleep 0.1"], "settle": 2}, IDLE),
    "memory.drop-caches": ({"kind": "memory.drop-caches", "what": "all"}, {"setup": [FILLED]}, ACTED),
    "memory.drop-caches.slab": (
        {"kind": "memory.drop-caches", "what": "slab", "sync": False}, {"setup": ["find /usr > /dev/null"]}, ACTED),
    "memory.drop-caches.forgotten": (
        {"kind": "memory.drop-caches"}, {"setup": [FILLED], "under": ["rm /run/stormcell/marks/fault"]}, NOT_IN_FORCE),
}  # fmt: skip
