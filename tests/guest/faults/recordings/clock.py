"""Recordings of `clock.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE

UNDONE = (False, True, True)
"""It acted for a while, and was over before its time."""
OURS_IS_KILLED = {"under": ["sleep 0.3; pkill -x sc-clock; sleep 0.1"]}
BEAT = (
    'mkdir -p /etc/stormcell; echo \'[{"name": "beat", "command": ["sleep", "1000"]}]\' '
    "> /etc/stormcell/services.json; stormcell-guest service load"
)

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "clock.jump": ({"kind": "clock.jump", "by": "-1h"}, {"under": ["date"]}, ACTED),
    "clock.jump.put-back": (
        {"kind": "clock.jump", "by": "2h"}, {"under": ["date -s @$(($(date +%s) - 7200))"]}, NOT_IN_FORCE),
    "clock.drift": ({"kind": "clock.drift", "by": "-5.015%"}, {"under": ["sleep 0.5"]}, ACTED),
    "clock.drift.put-back": (
        {"kind": "clock.drift", "by": "+5%"}, {"under": ["stormcell-guest clock drift 10000 0; sleep 2"]},
        NOT_IN_FORCE),
    "clock.slow": ({"kind": "clock.slow", "speed": "40%", "step": "20ms"}, {"under": ["sleep 0.5"]}, ACTED),
    "clock.slow.killed": ({"kind": "clock.slow", "speed": "0%"}, OURS_IS_KILLED, UNDONE),
    "clock.strobe": ({"kind": "clock.strobe", "by": "1h", "period": "100ms"}, {"under": ["sleep 0.5"]}, ACTED),
    "clock.strobe.killed": ({"kind": "clock.strobe", "by": "1h", "period": "100ms"}, OURS_IS_KILLED, UNDONE),
    "clock.leap": ({"kind": "clock.leap"}, {"under": ["sleep 3.5"]}, ACTED),
    "clock.leap.delete": ({"kind": "clock.leap", "second": "delete"}, {"under": ["sleep 3.5"]}, ACTED),
    "clock.leap.far": ({"kind": "clock.leap", "lead": "1h"}, {}, IDLE),
    "clock.zone": ({"kind": "clock.zone", "zone": "Asia/Kolkata"}, {}, ACTED),
    "clock.zone.utc": ({"kind": "clock.zone", "zone": "UTC"}, {}, IDLE),
    "clock.namespace": (
        {"kind": "clock.namespace", "service": "beat", "monotonic": "1d", "boottime": "2d"}, {"setup": [BEAT]}, ACTED),
    "clock.namespace.empty": ({"kind": "clock.namespace", "boottime": "1d"}, {}, IDLE),
}  # fmt: skip
