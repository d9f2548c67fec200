"""Reading a run's events back."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stormcell.spec.errors import SpecError
from stormcell.spec.files import read_regular

MALFORMED = "malformed"
"""The event that stands for a line which is none; the judge answers `unknown` and names the line."""


def read_events(path: Path) -> list[dict[str, Any]]:
    """The events of one run. Raises SpecError when there is no such file.

    A last line without its line feed was being written when the writer died; it is left out. Any other line that is no
    event becomes `{"event": "malformed", "on": "host", "line": N, "text": why}`.
    """
    try:
        raw = read_regular(path)
    except OSError as error:
        raise SpecError(
            f"the run's events cannot be read ({error.strerror})",
            where=str(path),
            remedy="give the folder that `stormcell run` named at its end",
        ) from error
    *lines, torn = raw.split(b"\n")
    events = list(parse_events(lines))
    if torn:
        (last,) = parse_events([torn])
        events += [] if last["event"] == MALFORMED else [last]
    return events


def parse_events(lines: Iterable[bytes]) -> Iterable[dict[str, Any]]:
    """One event a line, numbered from 1."""
    for number, line in enumerate(lines, 1):
        try:
            event = json.loads(line, parse_constant=_no_number)
            why = "it is no JSON object with an 'event'"
        except (ValueError, RecursionError) as error:
            event, why = None, f"it is no JSON ({error})"
        if isinstance(event, dict) and isinstance(event.get("event"), str) and event["event"] != MALFORMED:
            yield event
        else:
            yield {"event": MALFORMED, "on": "host", "line": number, "text": why}


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")
