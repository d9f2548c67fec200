"""Specs of `clock.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "clock.jump.forward": {"kind": "clock.jump", "by": "1500ms"},
}  # fmt: skip
