"""Recordings of `clock.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, NOT_IN_FORCE

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "clock.jump": ({"kind": "clock.jump", "by": "-1h"}, {"under": ["date"]}, ACTED),
    "clock.jump.put-back": (
        {"kind": "clock.jump", "by": "2h"}, {"under": ["date -s @$(($(date +%s) - 7200))"]}, NOT_IN_FORCE),
}  # fmt: skip
