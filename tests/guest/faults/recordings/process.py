"""Recordings of `process.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE
from tests.guest.faults.resource_loads import (
    DEAF,
    FORKER,
    GROUP,
    HANDLER,
    IDLER,
    OPENER,
    SPINNER,
    join,
    joined,
    named,
    there,
    trying,
)

THREAD = "threading.Thread(target=time.sleep, args=(900,), daemon=True).start()"

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "process.kill": (
        {"kind": "process.kill", "name": "sleep"},
        {"loads": ["sleep 1000 & sleep 1001 & wait"], "ready": "[ $(pgrep -cx sleep) -ge 2 ]"}, ACTED),
    "process.kill.heedless": (
        {"kind": "process.kill", "name": "sleep", "signal": "TERM"},
        {"loads": ["trap '' TERM; exec sleep 1000"]}, IDLE),
    "process.pids": (
        {"kind": "process.pids", "service": "victim", "max": 1}, {"loads": [FORKER], "under": ["sleep 0.5"]}, ACTED),
    "process.pids.idle": ({"kind": "process.pids", "service": "victim", "leave": 3}, {"under": ["sleep 0.1"]}, IDLE),
    "process.stop": (
        {"kind": "process.stop", "service": "victim"},
        {"loads": [SPINNER], "ready": joined(), "under": ["sleep 0.5"]}, ACTED),
    "process.stop.frozen": (
        {"kind": "process.stop", "service": "victim", "how": "freeze"},
        {"loads": [SPINNER], "under": ["sleep 0.5"]}, ACTED),
    "process.stop.name": (
        {"kind": "process.stop", "name": "idler", "how": "freeze"}, {"loads": [IDLER], "under": ["sleep 0.2"]}, ACTED),
    "process.stop.before": (
        {"kind": "process.stop", "name": "halted"},
        {"loads": [named("halted", "import os; os.kill(os.getpid(), 19)")], "under": ["sleep 0.1"]}, IDLE),
    "process.stop.continued": (
        {"kind": "process.stop", "name": "idler"}, {"loads": [IDLER], "under": ["pkill -CONT idler"]}, NOT_IN_FORCE),
    "process.signal": (
        {"kind": "process.signal", "name": "handler", "signal": "USR1", "rate": "50/s", "count": 30},
        {"loads": [HANDLER], "ready": there("handler"), "under": ["sleep 1"]}, ACTED),
    "process.signal.ignored": (
        {"kind": "process.signal", "name": "deaf", "signal": "USR1", "rate": "50/s"},
        {"loads": [DEAF], "under": ["sleep 0.3"]}, IDLE),
    "process.descriptors": (
        {"kind": "process.descriptors", "name": "opener", "leave": 5},
        {"loads": [OPENER], "ready": there("opener"), "under": ["sleep 0.6"]}, ACTED),
    "process.descriptors.idle": (
        {"kind": "process.descriptors", "name": "idler"}, {"loads": [IDLER], "under": ["sleep 0.1"]}, IDLE),
    "process.descriptors.guest": (
        {"kind": "process.descriptors"},
        {"loads": [trying("opener", "open(\"/dev/null\")", 65534)], "under": ["sleep 0.6"]}, ACTED),
    "process.threads": (
        {"kind": "process.threads", "user": "nobody", "leave": 2},
        {"loads": [f"{join()} {trying('threader', THREAD, 65534)}"], "ready": "pgrep -u nobody -x threader",
         "under": ["sleep 0.6"]}, ACTED),
    "process.threads.idle": (
        {"kind": "process.threads", "name": "idler"},
        {"loads": [named("idler", "import os, time\nos.setuid(65534)\ntime.sleep(1000)")],
         "under": ["sleep 0.1"]}, IDLE),
    "process.zombies": ({"kind": "process.zombies", "count": 60}, {"under": ["sleep 0.1"]}, ACTED),
    "process.zombies.service": (
        {"kind": "process.zombies", "count": 20, "service": "victim"},
        {"setup": [f"mkdir -p {GROUP}"], "under": ["sleep 0.1"]}, ACTED),
    "process.zombies.gone": (
        {"kind": "process.zombies", "count": 20},
        {"under": ["echo 1 > /sys/fs/cgroup/stormcell/faults/fault/cgroup.kill; sleep 0.2"]}, NOT_IN_FORCE),
}  # fmt: skip
