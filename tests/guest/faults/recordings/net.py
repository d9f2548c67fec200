"""Recordings of `net.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, LO, NOT_IN_FORCE, RUN, SERVER, V4, V6

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
}  # fmt: skip
