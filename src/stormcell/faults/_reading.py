"""Reading what a guest wrote as JSON: anything can be torn, and a guest may write anything."""

from __future__ import annotations

from typing import Any

from stormcell.spec.fault import Reading


def mapping(reading: Reading | None, name: str) -> dict[str, Any]:
    """The JSON object that the command NAME printed, {} when it printed anything else."""
    shown = reading.json_of(name) if reading is not None else None
    return shown if isinstance(shown, dict) else {}


def texts(listed: Any) -> list[str]:
    """The texts in a list, [] when it is no list."""
    return [item for item in listed if isinstance(item, str)] if isinstance(listed, list) else []


def mappings(listed: Any) -> list[dict[str, Any]]:
    """The objects in a list, [] when it is no list."""
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


def numbers(table: Any) -> dict[str, int]:
    """The whole numbers of an object by name, {} when it is none."""
    return {k: v for k, v in table.items() if isinstance(v, int)} if isinstance(table, dict) else {}


def counted(table: Any) -> dict[str, int]:
    """Those of its numbers that may be counts: a kernel counts nothing less than zero times."""
    return {name: number for name, number in numbers(table).items() if number >= 0}
