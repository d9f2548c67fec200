"""Specs of `net.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
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
}  # fmt: skip
