"""Specs of `block.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "block.delay.share": {"kind": "block.delay", "path": "/srv", "read": "8ms", "share": "2.5%", "cache": "keep"},
    "block.error.write": {"kind": "block.error", "path": "/srv", "operations": "write"},
    "block.error.both": {"kind": "block.error", "path": "/srv", "share": "10%"},
    "block.flaky.up": {
        "kind": "block.flaky", "path": "/srv", "up": "10s", "down": "1m", "first": "up", "operations": "write",
    },
    "block.drop-writes.share": {"kind": "block.drop-writes", "path": "/srv/a/b.db", "share": "50%"},
    "block.corrupt.write": {"kind": "block.corrupt", "path": "/srv", "operations": "write", "byte": 4096, "value": 0},
    "block.corrupt.value": {"kind": "block.corrupt", "path": "/srv", "value": 255, "share": "1%"},
}  # fmt: skip
