"""Specs of `custom.*` beside the examples: together with these they use every parameter."""

from typing import Any

SPECS: dict[str, dict[str, Any]] = {
    "custom.commands.shell": {
        "kind": "custom.commands",
        "apply": "touch /run/on",
        "undo": "rm -f /run/on",
        "shows": "test -e /run/on",
        "counter": ["cat", "/run/count"],
        "timeout": "5s",
    },
}
