"""Specs of `dns.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "dns.drop.one-device": {"kind": "dns.drop", "devices": "eth0"},
}  # fmt: skip
