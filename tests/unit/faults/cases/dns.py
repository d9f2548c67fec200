"""Specs of `dns.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "dns.drop.one-device": {"kind": "dns.drop", "devices": "eth0"},
    "dns.fail.everything": {"kind": "dns.fail"},
    "dns.fail.share": {"kind": "dns.fail", "names": ["A.Test.", "*.b.test"], "share": "25%", "rcode": "NODATA"},
    "dns.wrong.full": {
        "kind": "dns.wrong", "names": "*", "share": "50%", "address": ["192.0.2.1", "2001:db8::1"], "ttl": 60,
    },
    "dns.slow.full": {"kind": "dns.slow", "names": "a.test", "share": "99.5%", "delay": "1.5s", "jitter": "200ms"},
}  # fmt: skip
