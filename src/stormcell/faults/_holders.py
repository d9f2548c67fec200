"""Reading what guest/tools/holders.py says of processes of ours that go on during a fault."""

from __future__ import annotations

from typing import Any

from stormcell.faults._reading import mapping, mappings
from stormcell.spec.fault import Reading


def standing(reading: Reading | None, name: str, comm: str) -> list[dict[str, Any]]:
    """Holders with that command name which are in their group and not stopped."""
    shown = mapping(reading, name)
    group = shown.get("holders_in")
    return [
        holder
        for holder in mappings(shown.get("holders"))
        if holder.get("comm") == comm and group and holder.get("in") == group and holder.get("state") in ("R", "S", "D")
    ]


def gone(reading: Reading | None, name: str) -> bool:
    """No holder, no group and no mark are left. False when the reading is torn."""
    shown = mapping(reading, name)
    return bool(shown) and "holders" in shown and not shown.get("holders") and shown.get("holders_in") is None


def number(shown: Any, key: str) -> float | None:
    """A number of an object that is not negative, None when it is none."""
    value = shown.get(key) if isinstance(shown, dict) else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
