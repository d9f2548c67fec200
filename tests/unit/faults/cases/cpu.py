"""Specs of `cpu.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "cpu.limit.period": {"kind": "cpu.limit", "service": "web", "percent": "150%", "period": "20ms"},
}  # fmt: skip
