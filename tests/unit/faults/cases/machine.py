"""Specs of `machine.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "machine.crash.panic": {"kind": "machine.crash", "mode": "panic", "boot": False},
}  # fmt: skip
