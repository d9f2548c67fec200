"""Specs of `http.*` beside the examples: together with these they use every parameter."""

from typing import Any

WHERE = {"local_port": 80, "address": ["10.0.2.15", "fd00::/8"], "share": "20%"}
SPECS: dict[str, dict[str, Any]] = {
    "http.first-byte.full": {"kind": "http.first-byte", **WHERE, "delay": "1.5s", "jitter": "500ms"},
    "http.slow-body.full": {"kind": "http.slow-body", **WHERE, "rate": "300B"},
    "http.abort.full": {"kind": "http.abort", **WHERE, "after": "64KiB"},
    "http.abort.at-once": {"kind": "http.abort", "remote_port": 80},
    "http.status.full": {"kind": "http.status", **WHERE, "status": 429},
}  # fmt: skip
