"""Recordings of `http.*` and `tls.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE

OWN = "python3 /root/relay_tool.py"
AROUND = {
    "setup": [f"{OWN} make /root/tls svc.test; cp /root/tls/ca.pem /root/bundle.pem"],
    "loads": [f"{OWN} serve 8080 8443 /root/tls/svc.test.pem"],
    "ready": "ss -Hltn 'sport = :8080' | grep -q . && ss -Hltn 'sport = :8443' | grep -q .",
}
HTTP = [f"{OWN} get 127.0.0.1 8080 500", f"{OWN} get ::1 8080 500"]
TLS = [f"{OWN} get ::1 8443 5 1 /root/bundle.pem svc.test 2"]
NOBODY = ["ping -c 1 -q 127.0.0.1"]
KILLED = ["echo 1 > /sys/fs/cgroup/stormcell/faults/fault/cgroup.kill"]
TRUSTED = {"remote_port": 8443, "problem": "expired", "trust": "/root/bundle.pem"}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "http.first-byte": (
        {"kind": "http.first-byte", "remote_port": 8080, "delay": "300ms", "jitter": "20ms"},
        {**AROUND, "under": HTTP}, ACTED),
    "http.first-byte.idle": (
        {"kind": "http.first-byte", "local_port": 8080, "address": "127.0.0.9", "delay": "300ms"},
        {**AROUND, "under": HTTP}, IDLE),
    "http.first-byte.killed": (
        {"kind": "http.first-byte", "remote_port": 8080, "delay": "300ms"}, {"under": KILLED}, NOT_IN_FORCE),
    "http.slow-body": (
        {"kind": "http.slow-body", "local_port": 8080, "rate": "1KiB"}, {**AROUND, "under": HTTP}, ACTED),
    "http.slow-body.idle": ({"kind": "http.slow-body", "local_port": 8080, "rate": "1KiB"}, {"under": NOBODY}, IDLE),
    "http.abort": ({"kind": "http.abort", "local_port": 8080, "after": "90B"}, {**AROUND, "under": HTTP}, ACTED),
    "http.abort.idle": ({"kind": "http.abort", "local_port": 8080}, {"under": NOBODY}, IDLE),
    "http.status": ({"kind": "http.status", "remote_port": 8080, "status": 503}, {**AROUND, "under": HTTP}, ACTED),
    "http.status.idle": ({"kind": "http.status", "remote_port": 8443}, {**AROUND, "under": TLS}, IDLE),
    "tls.stall": (
        {"kind": "tls.stall", "remote_port": 8443, "names": ["svc.test", "*.test"]}, {**AROUND, "under": TLS}, ACTED),
    "tls.stall.late": (
        {"kind": "tls.stall", "local_port": 8443, "delay": "400ms"}, {**AROUND, "under": TLS}, ACTED),
    "tls.stall.idle": ({"kind": "tls.stall", "remote_port": 8443, "names": "a.test"}, {**AROUND, "under": TLS}, IDLE),
    "tls.certificate": ({"kind": "tls.certificate", **TRUSTED}, {**AROUND, "under": TLS}, ACTED),
    "tls.certificate.own": (
        {"kind": "tls.certificate", "remote_port": 8443, "problem": "wrong-name", "by": "2d",
         "ca_certificate": "/root/tls/ca.pem", "ca_key": "/root/tls/ca.key"}, {**AROUND, "under": TLS}, ACTED),
    "tls.certificate.untrusted": (
        {"kind": "tls.certificate", "remote_port": 8443, "problem": "untrusted"},
        {**AROUND, "under": [f"{OWN} get ::1 8443 5 1 none svc.test 2"]}, ACTED),
    "tls.certificate.idle": ({"kind": "tls.certificate", **TRUSTED}, {**AROUND, "under": NOBODY}, IDLE),
    "tls.certificate.distrusted": (
        {"kind": "tls.certificate", **TRUSTED}, {**AROUND, "under": ["cp /root/tls/ca.pem /root/bundle.pem"]},
        NOT_IN_FORCE),
}  # fmt: skip
