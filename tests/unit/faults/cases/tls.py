"""Specs of `tls.*` beside the examples: together with these they use every parameter."""

from typing import Any

WHERE = {"local_port": 443, "address": ["10.0.2.15", "fd00::/8"], "share": "20%"}
SPECS: dict[str, dict[str, Any]] = {
    "tls.stall.full": {"kind": "tls.stall", **WHERE, "names": ["a.test", "*.b.test"], "delay": "20s"},
    "tls.certificate.own": {
        "kind": "tls.certificate", **WHERE, "names": "a.test", "problem": "not-yet-valid", "by": "30d",
        "ca_certificate": "/etc/ca.pem", "ca_key": "/etc/ca.key",
    },
    "tls.certificate.name": {
        "kind": "tls.certificate", "remote_port": 443, "problem": "wrong-name", "trust": "/etc/ca.pem",
    },
    "tls.certificate.untrusted": {"kind": "tls.certificate", "remote_port": 443, "problem": "untrusted"},
    "tls.certificate.self-signed": {"kind": "tls.certificate", "remote_port": 443, "problem": "self-signed"},
}  # fmt: skip
