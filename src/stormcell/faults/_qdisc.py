"""Reading what `tc -batch` and `ip -json` answered. Pure."""

from __future__ import annotations

import json
from typing import Any

from stormcell.spec.fault import Reading


def documents(text: str) -> list[list[Any]]:
    """The JSON arrays that follow each other in `text`, one for each line of a batch. [] for anything torn."""
    found: list[list[Any]] = []
    decoder = json.JSONDecoder()
    position = 0
    try:
        while position < len(text.rstrip()):
            item, position = decoder.raw_decode(text, position)
            if not isinstance(item, list):
                return []
            found.append(item)
            while position < len(text) and text[position].isspace():
                position += 1
    except ValueError:
        return []
    return found


def qdiscs(reading: Reading) -> list[dict[str, Any]]:
    """Every qdisc of the guest."""
    shown = documents(reading.text("tc"))
    return [item for item in shown[0] if isinstance(item, dict)] if shown else []


def filters(reading: Reading) -> list[dict[str, Any]]:
    """Every filter that was asked for: the first line of the batch is the qdiscs, the others are filters."""
    return [
        item
        for shown in documents(reading.text("tc"))[1:]
        for item in shown
        if isinstance(item, dict) and isinstance(item.get("options"), dict)
    ]


def qdisc(reading: Reading, device: str, handle: str) -> dict[str, Any]:
    """The qdisc with this handle, {} when it is not there."""
    return next((q for q in qdiscs(reading) if q.get("dev") == device and q.get("handle") == handle), {})


def prefs(reading: Reading) -> set[int]:
    """The preferences of the filters that were asked for."""
    return {pref for shown in filters(reading) if isinstance(pref := shown.get("pref"), int)}
