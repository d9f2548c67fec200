"""One run of a program, and what its standard output shows."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from stormcell.guest.probes.attempts import Taken
from stormcell.guest.running import Run

TAIL = 64 << 10
"""Bytes of output that are kept and searched: the last ones."""


def take(spec: Mapping[str, Any], run: Run) -> Taken:
    """One sample. Patterns are searched in the tail of standard output; `number` is the pattern's first group."""
    command = {
        "argv": spec["run"],
        "user": spec.get("user"),
        "cwd": spec.get("cwd"),
        "node": spec.get("node"),
        "env": spec.get("env") or {},
        "timeout_s": spec.get("timeout", 30.0),
        "part": "probe",
    }
    done = run(command, limit=TAIL, tail=True)
    number, match = spec.get("number"), spec.get("match")
    facts = {
        "number": _number(re.search(number, done.out)) if number else None,
        "matches": re.search(match, done.out) is not None if match else None,
        "out": done.out,
        "err": done.err,
    }
    seconds = None if done.outcome == "not_started" else round(done.seconds, 9)
    detail = "only the last 64 KiB of the output were searched" if done.truncated else ""
    return Taken([[0.0, seconds, done.outcome, facts]], detail)


def _number(found: re.Match[str] | None) -> float | None:
    try:
        value = float(found[1]) if found else None
    except (ValueError, TypeError):
        return None
    return value if value is not None and math.isfinite(value) else None
