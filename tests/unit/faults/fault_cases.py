"""Specs that between them use every parameter, and the real readings that fault_record.py took in a microVM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stormcell import faults
from stormcell.spec.fault import Fault, Reading

HERE = Path(__file__).parent
READINGS = HERE / "readings"
GOLDEN = HERE / "golden"

SPECS: dict[str, dict[str, Any]] = {
    **{kind: fault.example for kind, fault in faults.CATALOGUE.items()},
    "net.delay.everything": {"kind": "net.delay", "delay": "100ms"},
    "net.delay.full": {
        "kind": "net.delay", "device": ["eth0", "eth1"], "direction": "both", "address": ["10.1.0.0/16", "fd00::7"],
        "remote_port": 80, "local_port": 8080, "protocol": "tcp", "delay": "1.5s", "jitter": "20ms",
        "distribution": "paretonormal", "correlation": "12.5%",
    },
    "net.loss.correlated": {"kind": "net.loss", "loss": "0.5%", "correlation": "30%", "protocol": "icmp"},
    "net.loss.in": {"kind": "net.loss", "device": "lo", "direction": "in", "loss": "100%"},
    "net.rate.full": {"kind": "net.rate", "direction": "both", "rate": "256kbit", "burst": "4KiB", "queue": "250ms"},
    "net.drop.everything": {"kind": "net.drop", "direction": "both"},
    "net.drop.in": {"kind": "net.drop", "direction": "in", "local_port": 22},
    "net.reject.icmp": {
        "kind": "net.reject", "device": ["lo", "eth0"], "direction": "both", "with": "admin-prohibited",
    },
    "net.reject.udp": {"kind": "net.reject", "protocol": "udp", "remote_port": 123, "with": "port-unreachable"},
    "dns.drop.one-device": {"kind": "dns.drop", "devices": "eth0"},
    "memory.limit.cgroup": {"kind": "memory.limit", "cgroup": "/sys/fs/cgroup/other/group", "max": "1.5MiB"},
    "cpu.limit.period": {"kind": "cpu.limit", "service": "web", "percent": "150%", "period": "20ms"},
    "disk.fill.leave": {"kind": "disk.fill", "path": "/srv/data/", "leave": "64KiB", "user": "root"},
    "disk.inodes.share": {"kind": "disk.inodes", "path": "/srv", "leave": "2.5%"},
    "clock.jump.forward": {"kind": "clock.jump", "by": "1500ms"},
    "process.kill.main": {"kind": "process.kill", "service": "web", "processes": "main", "signal": "TERM"},
    "process.kill.name": {"kind": "process.kill", "name": "redis-server"},
    "process.kill.init": {"kind": "process.kill", "pid": 1},
    "machine.crash.panic": {"kind": "machine.crash", "mode": "panic", "boot": False},
}  # fmt: skip


class Recorded:
    """One file of readings with what the receipt said then."""

    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text())
        self.name = path.stem
        self.spec: dict[str, Any] = document["fault"]
        self.fault: Fault = faults.parse(self.spec)
        self.in_force: bool = document["in_force"]
        self.acted: int = document["acted"]
        self.clean: bool | None = document["clean"]
        self.readings = {label: Reading.model_validate(item) for label, item in document["readings"].items()}
        self.before, self.during = self.readings["before"], self.readings["during"]
        self.after = self.readings["after"]
        self.undone = self.readings.get("undone")


def recorded(*kinds: str) -> list[Recorded]:
    """All of them, or those of some kinds."""
    found = [Recorded(path) for path in sorted(READINGS.glob("*.json"))]
    return [one for one in found if not kinds or one.fault.kind in kinds]


def one(name: str) -> Recorded:
    """By file name."""
    return Recorded(READINGS / f"{name}.json")
