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
    "net.delay.hosts": {"kind": "net.delay", "host": ["db.example", "web.example"], "remote_port": 80, "delay": "1ms"},
    "net.loss.every": {"kind": "net.loss", "device": "lo", "protocol": "udp", "every": 7},
    "net.loss.bursts": {"kind": "net.loss", "burst_start": "1%", "burst_end": "10%", "burst_loss": "90%",
                        "other_loss": "0.5%"},
    "net.loss.burst": {"kind": "net.loss", "burst_start": "1%"},
    "net.loss.states": {"kind": "net.loss", "p13": "1%", "p31": "10%", "p32": "2%", "p23": "20%", "p14": "3%"},
    "net.loss.state": {"kind": "net.loss", "direction": "both", "p13": "1%"},
    "net.duplicate.all": {"kind": "net.duplicate", "duplicate": "100%", "direction": "in"},
    "net.corrupt.all": {"kind": "net.corrupt", "corrupt": "100%", "local_port": 80},
    "net.reorder.full": {"kind": "net.reorder", "reorder": "50%", "correlation": "20%", "gap": 5, "delay": "10ms"},
    "net.slot.bytes": {"kind": "net.slot", "every": "10ms", "slot_bytes": "64KiB"},
    "net.rate.wire": {"kind": "net.rate", "rate": "1mbit", "shaper": "netem", "packet_overhead": 14, "cell_size": 48,
                      "cell_overhead": 5, "queue": "300ms"},
    "net.rate.packets": {"kind": "net.rate", "rate": "1mbit", "shaper": "netem", "queue_packets": 20},
    "net.impair.full": {
        "kind": "net.impair", "device": ["lo", "eth0"], "direction": "both", "delay": "30ms", "jitter": "5ms",
        "distribution": "normal", "delay_correlation": "25%", "loss": "2%", "loss_correlation": "10%",
        "duplicate": "1%", "corrupt": "0.5%", "reorder": "5%", "gap": 4, "rate": "10mbit", "queue": "200ms",
    },
    "net.impair.loss": {"kind": "net.impair", "loss": "2%", "duplicate": "1%"},
    "net.drop.new": {"kind": "net.drop", "direction": "in", "connections": "new"},
    "net.drop.open": {"kind": "net.drop", "connections": "established", "address": "10.0.2.2", "remote_port": 443,
                      "reach": False},
    "net.drop.host": {"kind": "net.drop", "direction": "both", "host": "db.example", "remote_port": 5432},
    "net.reject.new": {"kind": "net.reject", "host": "db.example", "remote_port": 53, "protocol": "udp",
                       "with": "port-unreachable"},
    "net.loss.in": {"kind": "net.loss", "device": "lo", "direction": "in", "loss": "100%"},
    "net.rate.full": {"kind": "net.rate", "direction": "both", "rate": "256kbit", "burst": "4KiB", "queue": "250ms"},
    "net.drop.everything": {"kind": "net.drop", "direction": "both"},
    "net.drop.in": {"kind": "net.drop", "direction": "in", "local_port": 22},
    "net.reject.syn": {"kind": "net.reject", "connections": "new", "address": "10.0.2.2", "remote_port": 80},
    "net.reject.icmp": {
        "kind": "net.reject", "device": ["lo", "eth0"], "direction": "both", "with": "admin-prohibited",
    },
    "net.reject.udp": {"kind": "net.reject", "protocol": "udp", "remote_port": 123, "with": "port-unreachable"},
}  # fmt: skip
