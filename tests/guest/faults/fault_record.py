"""Records real readings for the unit tests: `python -m tests.guest.faults.fault_record [NAME...]`.

Each case is a fault with what goes on around it, and what its receipt must say; a case that says otherwise is not
written.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from stormcell.engine.api import run
from stormcell.engine.folder import read_receipts
from stormcell.sandbox.templates import resolve
from stormcell.spec.receipt import Receipt
from tests.guest.faults.fault_trial import Bench

READINGS = Path(__file__).parents[2] / "unit" / "faults" / "readings"
TOOL = Path(__file__).parent / "network_tool.py"
RUN = "python3 /root/tool.py"
SERVER = f"{RUN} serve 9000"
GROUP = "/sys/fs/cgroup/services/victim"
SERVICE = (
    f"mkdir -p {GROUP}; echo '+memory +cpu' > /sys/fs/cgroup/services/cgroup.subtree_control; "
    f"echo $$ > {GROUP}/cgroup.procs; "
)
EATER = f"{SERVICE} exec python3 -c 'import time\nb=[]\nwhile 1: b.append(bytearray(1<<20)); time.sleep(0.02)'"
SPINNER = f"{SERVICE} exec python3 -c 'while 1: pass'"
LO = {"device": "lo", "remote_port": 9000}
V4, V6 = f"{RUN} connect 127.0.0.1 9000 2", f"{RUN} connect ::1 9000 2"
ACTED, IDLE, NOT_IN_FORCE = (True, True, True), (True, False, True), (False, False, True)

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "net.delay": ({"kind": "net.delay", **LO, "delay": "200ms"}, {"loads": [SERVER], "under": [V4, V6]}, ACTED),
    "net.delay.both": (
        {"kind": "net.delay", "device": "lo", "direction": "both", "delay": "50ms", "jitter": "10ms",
         "distribution": "normal", "correlation": "25%"},
        {"under": ["ping -c 3 -i 0.2 127.0.0.1", "ping -6 -c 3 -i 0.2 ::1"]}, ACTED),
    "net.delay.peer": (
        {"kind": "net.delay", "device": ["eth0", "lo"], "direction": "in", "delay": "100ms",
         "address": ["10.0.2.0/24", "fec0::/64"]},
        {"under": ["ping -c 3 -i 0.2 10.0.2.2", "ping -6 -c 3 -i 0.2 fec0::2"]}, ACTED),
    "net.delay.idle": ({"kind": "net.delay", **LO, "delay": "200ms"}, {"under": ["ping -c 2 127.0.0.1"]}, IDLE),
    "net.delay.removed": (
        {"kind": "net.delay", "device": "lo", "delay": "100ms"},
        {"under": ["ping -c 2 127.0.0.1", "tc qdisc del dev lo root"]}, NOT_IN_FORCE),
    "net.loss": (
        {"kind": "net.loss", "device": "lo", "loss": "40%", "correlation": "10%"},
        {"under": ["ping -c 30 -i 0.02 -W 1 127.0.0.1"]}, ACTED),
    "net.loss.in": (
        {"kind": "net.loss", "device": "lo", "loss": "100%", "direction": "in", "protocol": "icmp"},
        {"under": ["ping -c 3 -i 0.2 -W 1 127.0.0.1"]}, ACTED),
    "net.loss.idle": ({"kind": "net.loss", "device": "lo", "loss": "0.01%"}, {"under": ["ping -c 2 127.0.0.1"]}, IDLE),
    "net.rate": (
        {"kind": "net.rate", **LO, "rate": "1mbit"},
        {"loads": [SERVER], "under": [f"{RUN} transfer 127.0.0.1 9000 200000"]}, ACTED),
    "net.rate.idle": ({"kind": "net.rate", "device": "lo", "rate": "1mbit"}, {"under": ["ping -c 1 127.0.0.1"]}, IDLE),
    "net.drop": (
        {"kind": "net.drop", "device": ["lo", "eth0"], "direction": "both", "remote_port": 9000},
        {"loads": [SERVER], "under": [V4, V6]}, ACTED),
    "net.drop.everything": (
        {"kind": "net.drop", "device": "eth0", "direction": "in"}, {"under": ["ping -c 1 -W 1 10.0.2.2"]}, ACTED),
    "net.drop.idle": ({"kind": "net.drop", **LO}, {"under": ["ping -c 1 127.0.0.1"]}, IDLE),
    "net.drop.flushed": ({"kind": "net.drop", **LO}, {"under": [V4, "nft flush ruleset"]}, NOT_IN_FORCE),
    "net.reject": ({"kind": "net.reject", **LO}, {"loads": [SERVER], "under": [V4, V6]}, ACTED),
    "net.reject.icmp": (
        {"kind": "net.reject", "device": "lo", "with": "host-unreachable", "address": ["127.0.0.0/8", "::1"]},
        {"under": [V4, V6]}, ACTED),
    "net.reject.idle": ({"kind": "net.reject", **LO, "direction": "in"}, {}, IDLE),
    "net.reject.everything": (
        {"kind": "net.reject", "device": "lo", "direction": "in"}, {"loads": [SERVER], "under": [V4, V6]}, ACTED),
    "dns.drop": (
        {"kind": "dns.drop"},
        {"setup": ["printf 'nameserver 10.0.2.3\noptions timeout:1 attempts:1\n' > /etc/resolv.conf"],
         "under": ["getent ahosts a.test"]}, ACTED),
    "dns.drop.idle": ({"kind": "dns.drop"}, {"under": ["getent hosts localhost"]}, IDLE),
    "memory.limit": (
        {"kind": "memory.limit", "service": "victim", "max": "32MiB"},
        {"loads": [EATER], "under": ["sleep 2"], "settle": 1.5}, ACTED),
    "memory.limit.idle": ({"kind": "memory.limit", "cgroup": GROUP, "max": "100MB"}, {"under": ["sleep 0.1"]}, IDLE),
    "cpu.limit": (
        {"kind": "cpu.limit", "service": "victim", "percent": "20%"},
        {"loads": [SPINNER], "under": ["sleep 2"]}, ACTED),
    "cpu.limit.idle": ({"kind": "cpu.limit", "service": "victim", "percent": "20%"}, {"under": ["sleep 0.1"]}, IDLE),
    "disk.fill": (
        {"kind": "disk.fill", "path": "/var/tmp"},
        {"under": ["su nobody -s /bin/sh -c 'head -c 300000 /dev/zero > /tmp/full'", "rm -f /tmp/full"]}, ACTED),
    "disk.fill.leave": ({"kind": "disk.fill", "path": "/var/tmp", "leave": "10%"}, {"under": ["df /"]}, IDLE),
    "disk.fill.freed": (
        {"kind": "disk.fill", "path": "/var/tmp"}, {"under": ["rm /var/tmp/.stormcell-fill"]}, NOT_IN_FORCE),
    "disk.inodes": (
        {"kind": "disk.inodes", "path": "/mnt/small"},
        {"setup": ["mkdir -p /mnt/small; mount -t tmpfs -o size=8m,nr_inodes=300 small /mnt/small"],
         "under": ["touch /mnt/small/new"]}, ACTED),
    "disk.inodes.leave": ({"kind": "disk.inodes", "path": "/mnt/small", "leave": 50}, {"under": ["df /"]}, IDLE),
    "clock.jump": ({"kind": "clock.jump", "by": "-1h"}, {"under": ["date"]}, ACTED),
    "clock.jump.put-back": (
        {"kind": "clock.jump", "by": "2h"}, {"under": ["date -s @$(($(date +%s) - 7200))"]}, NOT_IN_FORCE),
    "process.kill": (
        {"kind": "process.kill", "name": "sleep"}, {"loads": ["sleep 1000 & sleep 1001 & wait"]}, ACTED),
    "process.kill.heedless": (
        {"kind": "process.kill", "name": "sleep", "signal": "TERM"},
        {"loads": ["trap '' TERM; exec sleep 1000"]}, IDLE),
    "process.kill.init": ({"kind": "process.kill", "pid": 1}, {}, IDLE),
}  # fmt: skip


CRASHES: dict[str, dict[str, Any]] = {
    "machine.crash": {"mode": "power", "boot": True},
    "machine.crash.panic": {"mode": "panic", "boot": False},
    "machine.crash.reboot": {"mode": "reboot", "boot": False},
}


def crash(parameters: dict[str, Any]) -> Receipt:
    """A whole run: a crash is carried out by the host."""
    alive = {"name": "alive", "command": {"run": "true"}, "expect": {"exit_code": 0}}
    fault = {"kind": "machine.crash", **parameters}
    outcome = run({"name": "crash", "template": "base", "steady_state": [alive], "fault": fault})
    return read_receipts(outcome.folder)["fault"]


def write(name: str, judged: Receipt, expected: tuple[bool, bool, bool], why: str = "") -> None:
    """Raises AssertionError when the receipt says something else than the case wants."""
    got = (bool(judged.in_force), bool(judged.acted), judged.clean is not False)
    assert got == expected, (name, got, why, judged.notes)
    readings = {label: reading.model_dump(mode="json") for label, reading in judged.readings.items()}
    document = {
        "fault": {"kind": judged.kind, **judged.params},
        "in_force": judged.in_force,
        "acted": judged.acted,
        "clean": judged.clean,
        "readings": readings,
    }
    (READINGS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def main(names: list[str]) -> None:
    """All cases, or those that are named."""
    bench = Bench(asyncio.run(resolve("base", None)))
    try:
        bench.put("/root/tool.py", TOOL.read_text())
        for name in names or list(CASES):
            if name in CASES:
                spec, parts, expected = CASES[name]
                trial = bench.attempt(spec, **parts)
                write(name, trial.receipt, expected, trial.stop)
                sys.stderr.write(f"{name}\n")
    finally:
        bench.close()
    for name, parameters in CRASHES.items():
        if not names or name in names:
            write(name, crash(parameters), ACTED)


if __name__ == "__main__":
    main(sys.argv[1:])
