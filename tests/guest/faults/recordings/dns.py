"""Recordings of `dns.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE

OWN = "python3 /root/dns_tool.py"
LOCAL = ["printf 'nameserver 127.0.0.53\noptions timeout:1 attempts:1\n' > /etc/resolv.conf"]
SERVER = [f"{OWN} serve 127.0.0.53"]
AROUND = {"setup": LOCAL, "loads": SERVER, "ready": "ss -Hlun 'sport = :53' | grep -q 127.0.0.53"}
BOTH = [f"{OWN} lookup a.test", f"{OWN} lookup b.test"]

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "dns.drop": (
        {"kind": "dns.drop"},
        {"setup": ["printf 'nameserver 10.0.2.3\noptions timeout:1 attempts:1\n' > /etc/resolv.conf"],
         "under": ["getent ahosts a.test"]}, ACTED),
    "dns.drop.idle": ({"kind": "dns.drop"}, {"under": ["getent hosts localhost"]}, IDLE),
    "dns.fail": (
        {"kind": "dns.fail", "names": ["a.test", "*.a.test"], "rcode": "SERVFAIL"}, {**AROUND, "under": BOTH}, ACTED),
    "dns.fail.idle": ({"kind": "dns.fail", "names": "a.test"}, {**AROUND, "under": BOTH[1:]}, IDLE),
    "dns.fail.hosts": (
        {"kind": "dns.fail", "names": "a.test"},
        {"setup": ["echo '10.1.1.1 a.test' >> /etc/hosts"], "under": BOTH[:1]}, IDLE),
    "dns.fail.untabled": (
        {"kind": "dns.fail"}, {**AROUND, "under": ["nft delete table inet stormcell_dns_fail_1"]}, NOT_IN_FORCE),
    "dns.wrong": (
        {"kind": "dns.wrong", "names": "b.test", "address": ["2001:db8::1", "192.0.2.1"]},
        {**AROUND, "under": BOTH}, ACTED),
    "dns.wrong.six": (
        {"kind": "dns.wrong", "names": "b.test", "address": "2001:db8::1", "ttl": 5}, {**AROUND, "under": BOTH}, ACTED),
    "dns.wrong.idle": ({"kind": "dns.wrong", "names": "c.test", "address": "192.0.2.1"},
                       {**AROUND, "under": BOTH}, IDLE),
    "dns.slow": (
        {"kind": "dns.slow", "names": "b.test", "delay": "300ms", "jitter": "50ms"}, {**AROUND, "under": BOTH}, ACTED),
    "dns.slow.idle": ({"kind": "dns.slow", "names": "c.test", "delay": "300ms"}, {**AROUND, "under": BOTH}, IDLE),
    "dns.slow.killed": (
        {"kind": "dns.slow", "names": "b.test", "delay": "300ms"},
        {**AROUND, "under": [*BOTH, "echo 1 > /sys/fs/cgroup/stormcell/faults/fault/cgroup.kill"]}, NOT_IN_FORCE),
}  # fmt: skip
