"""Recordings of `net.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, LO, NOT_IN_FORCE, RUN, SERVER, V4, V6

ICMP = {"device": "lo", "protocol": "icmp"}
UDP = {**LO, "protocol": "udp"}
PINGS = "ping -c 30 -i 0.02 -W 1 -q 127.0.0.1"
TALKS = "ss -Htn state established 'dport = :9000' | grep -q ."
TALKER = f"{RUN} keep_open 127.0.0.1 9000 20"
DATAGRAMS = f"{RUN} datagrams 127.0.0.1 9000 10 1"

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
        {"under": ["ping -c 2 127.0.0.1", "tc qdisc del dev sc1-out0 root"]}, NOT_IN_FORCE),
    "net.loss": (
        {"kind": "net.loss", "device": "lo", "loss": "40%", "correlation": "10%"},
        {"under": ["ping -c 30 -i 0.02 -W 1 127.0.0.1"]}, ACTED),
    "net.loss.in": (
        {"kind": "net.loss", "device": "lo", "loss": "100%", "direction": "in", "protocol": "icmp"},
        {"under": ["ping -c 3 -i 0.2 -W 1 127.0.0.1"]}, ACTED),
    "net.loss.idle": ({"kind": "net.loss", "device": "lo", "loss": "0.01%"}, {"under": ["ping -c 2 127.0.0.1"]}, IDLE),
    "net.delay.host": (
        {"kind": "net.delay", "device": "lo", "delay": "50ms", "host": "localhost"}, {"under": ["ping -c 2 127.0.0.1"]},
        ACTED),
    "net.loss.every": ({"kind": "net.loss", **ICMP, "every": 3}, {"under": [PINGS]}, ACTED),
    "net.loss.bursts": (
        {"kind": "net.loss", **ICMP, "burst_start": "20%", "burst_end": "40%", "burst_loss": "90%", "other_loss": "1%"},
        {"under": [PINGS]}, ACTED),
    "net.loss.states": (
        {"kind": "net.loss", **ICMP, "p13": "20%", "p31": "30%", "p32": "10%", "p23": "20%", "p14": "3%"},
        {"under": [PINGS]}, ACTED),
    "net.duplicate": ({"kind": "net.duplicate", **ICMP, "duplicate": "50%"}, {"under": [PINGS]}, ACTED),
    "net.duplicate.idle": ({"kind": "net.duplicate", **LO, "duplicate": "100%"}, {"under": [PINGS]}, IDLE),
    "net.corrupt": ({"kind": "net.corrupt", **UDP, "corrupt": "50%"}, {"loads": [SERVER], "under": [DATAGRAMS]}, ACTED),
    "net.corrupt.idle": ({"kind": "net.corrupt", **LO, "corrupt": "50%"}, {"under": [PINGS]}, IDLE),
    "net.reorder": (
        {"kind": "net.reorder", **ICMP, "delay": "20ms", "reorder": "60%", "gap": 2, "correlation": "5%"},
        {"under": [PINGS]}, ACTED),
    "net.reorder.idle": ({"kind": "net.reorder", **LO, "delay": "20ms", "reorder": "30%"}, {"under": [PINGS]}, IDLE),
    "net.slot": (
        {"kind": "net.slot", **ICMP, "every": "20ms", "at_most": "30ms", "slot_packets": 3, "slot_bytes": "10KiB"},
        {"under": [PINGS]}, ACTED),
    "net.slot.idle": ({"kind": "net.slot", **LO, "every": "20ms"}, {"under": [PINGS]}, IDLE),
    "net.impair": (
        {"kind": "net.impair", **ICMP, "delay": "20ms", "jitter": "5ms", "delay_correlation": "10%", "loss": "20%",
         "loss_correlation": "5%", "duplicate": "20%", "corrupt": "1%", "reorder": "20%", "rate": "10mbit", "gap": 2},
        {"under": [PINGS]}, ACTED),
    "net.impair.counted": (
        {"kind": "net.impair", **ICMP, "loss": "20%", "duplicate": "20%"}, {"under": [PINGS]}, ACTED),
    "net.impair.idle": ({"kind": "net.impair", **LO, "delay": "20ms", "loss": "20%"}, {"under": [PINGS]}, IDLE),
    "net.rate.wire": (
        {"kind": "net.rate", **ICMP, "rate": "256kbit", "shaper": "netem", "packet_overhead": 10, "cell_size": 48,
         "cell_overhead": 5, "queue_packets": 50}, {"under": [PINGS]}, ACTED),
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
    "net.down": ({"kind": "net.down"}, {"under": ["ping -c 1 -W 1 10.0.2.2; ping -6 -c 1 -W 1 fec0::2"]}, ACTED),
    "net.down.idle": ({"kind": "net.down", "device": "eth0"}, {"under": ["ping -c 1 -W 1 127.0.0.1"]}, IDLE),
    "net.cut": ({"kind": "net.cut", "remote_port": 9000}, {"loads": [SERVER, TALKER], "ready": TALKS}, ACTED),
    "net.cut.idle": ({"kind": "net.cut", "local_port": 9}, {"loads": [SERVER, TALKER], "ready": TALKS}, IDLE),
    "net.drop.new": (
        {"kind": "net.drop", "device": "lo", "remote_port": 9000, "connections": "new",
         "address": ["127.0.0.1", "::1"]}, {"loads": [SERVER], "under": [V4]}, ACTED),
    "net.drop.open": (
        {"kind": "net.drop", **LO, "connections": "established", "host": "localhost", "direction": "both"},
        {"loads": [SERVER], "under": [f"{RUN} transfer 127.0.0.1 9000 100 & sleep 2; kill $!"]}, ACTED),
    "net.reject": ({"kind": "net.reject", **LO}, {"loads": [SERVER], "under": [V4, V6]}, ACTED),
    "net.reject.icmp": (
        {"kind": "net.reject", "device": "lo", "with": "host-unreachable", "address": ["127.0.0.0/8", "::1"]},
        {"under": [V4, V6]}, ACTED),
    "net.reject.idle": ({"kind": "net.reject", **LO, "direction": "in"}, {}, IDLE),
    "net.reject.everything": (
        {"kind": "net.reject", "device": "lo", "direction": "in"}, {"loads": [SERVER], "under": [V4, V6]}, ACTED),
}  # fmt: skip
