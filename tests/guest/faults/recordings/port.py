"""Recordings of `port.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE, SERVER

OWN = "python3 /root/port_tool.py"
CONNECT = [f"{OWN} connects 127.0.0.1 9000 7", f"{OWN} datagrams ::1 9000 3", f"{OWN} binds 0 2"]
SINK = {"loads": [f"{OWN} sink 9100 16"], "ready": "ss -Hltn 'sport = :9100' | grep -q ."}
NOBODY = ["ping -c 1 -q 127.0.0.1"]

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "port.ephemeral": ({"kind": "port.ephemeral"}, {"loads": [SERVER], "under": CONNECT}, ACTED),
    "port.ephemeral.idle": (
        {"kind": "port.ephemeral", "leave": 100},
        {"setup": ["echo 8080,40000-40010 > /proc/sys/net/ipv4/ip_local_reserved_ports"],
         "loads": [SERVER], "under": CONNECT}, IDLE),
    "port.ephemeral.freed": (
        {"kind": "port.ephemeral"}, {"under": ["echo > /proc/sys/net/ipv4/ip_local_reserved_ports"]}, NOT_IN_FORCE),
    "port.time-wait": (
        {"kind": "port.time-wait", "remote_port": 9000, "count": 20}, {"loads": [SERVER], "under": CONNECT}, ACTED),
    "port.time-wait.idle": (
        {"kind": "port.time-wait", "remote_port": 9000, "address": "::1", "count": 21},
        {"loads": [SERVER], "under": CONNECT[1:2]}, IDLE),
    "port.time-wait.reused": (
        {"kind": "port.time-wait", "remote_port": 9000, "count": 20},
        {"loads": [SERVER], "under": ["echo 1 > /proc/sys/net/ipv4/tcp_tw_reuse"]}, NOT_IN_FORCE),
    "port.backlog": (
        {"kind": "port.backlog", "local_port": 9100}, {**SINK, "under": [f"{OWN} connects 127.0.0.1 9100 2 1"]}, ACTED),
    "port.backlog.idle": (
        {"kind": "port.backlog", "local_port": 9100}, {**SINK, "under": NOBODY}, IDLE),
    "port.backlog.killed": (
        {"kind": "port.backlog", "local_port": 9100},
        {**SINK, "under": ["echo 1 > /sys/fs/cgroup/stormcell/faults/fault/cgroup.kill"]}, NOT_IN_FORCE),
    "port.conntrack": (
        {"kind": "port.conntrack", "max": 2}, {**SINK, "under": [f"{OWN} connects 127.0.0.1 9100 4 1"]}, ACTED),
    "port.conntrack.idle": ({"kind": "port.conntrack", "max": 2000}, {"under": NOBODY}, IDLE),
    "port.conntrack.raised": (
        {"kind": "port.conntrack"},
        {"under": ["echo 4096 > /proc/sys/net/netfilter/nf_conntrack_max", *NOBODY]}, NOT_IN_FORCE),
}  # fmt: skip
