"""Recordings of `block.*`: the fault, what goes on around it, and what its receipt must say."""

from typing import Any

from tests.guest.faults.recording import ACTED, IDLE, NOT_IN_FORCE, VOLUME

DATA, FILE = {"path": "/srv/data"}, {"path": "/srv/data/file"}
READ = "dd if=/srv/data/file of=/dev/null bs=16k"
WRITE = "dd if=/dev/zero of=/srv/data/file bs=16k count=4 conv=notrunc,fsync"
SETUP = {"setup": [VOLUME]}

CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {
    "block.delay": (
        {"kind": "block.delay", **DATA, "read": "100ms", "write": "50ms"}, {**SETUP, "under": [READ, WRITE]}, ACTED),
    "block.delay.share": (
        {"kind": "block.delay", **FILE, "read": "60ms", "share": "25%"}, {**SETUP, "under": [READ]}, ACTED),
    "block.delay.idle": ({"kind": "block.delay", **FILE, "write": "50ms"}, {**SETUP, "under": [READ]}, IDLE),
    "block.error": ({"kind": "block.error", **FILE}, {**SETUP, "under": [READ, WRITE]}, ACTED),
    "block.error.read": (
        {"kind": "block.error", **DATA, "operations": "read", "share": "50%"}, {**SETUP, "under": [READ]}, ACTED),
    "block.error.write": ({"kind": "block.error", **FILE, "operations": "write"}, {**SETUP, "under": [WRITE]}, ACTED),
    "block.error.cached": (
        {"kind": "block.error", **FILE, "cache": "keep"}, {"setup": [VOLUME, READ], "under": [READ]}, IDLE),
    "block.flaky": (
        {"kind": "block.flaky", **FILE, "up": "1s", "down": "60s"}, {**SETUP, "under": [READ]}, ACTED),
    "block.flaky.write": (
        {"kind": "block.flaky", **FILE, "up": "1s", "down": "60s", "operations": "write"},
        {**SETUP, "under": [READ, WRITE]}, ACTED),
    "block.flaky.up": (
        {"kind": "block.flaky", **FILE, "up": "60s", "down": "1s", "first": "up"}, {**SETUP, "under": [READ]}, IDLE),
    "block.drop-writes": ({"kind": "block.drop-writes", **FILE}, {**SETUP, "under": [WRITE]}, ACTED),
    "block.drop-writes.idle": ({"kind": "block.drop-writes", **DATA}, {**SETUP, "under": [READ]}, IDLE),
    "block.corrupt": ({"kind": "block.corrupt", **FILE, "byte": 9}, {**SETUP, "under": [READ]}, ACTED),
    "block.corrupt.write": (
        {"kind": "block.corrupt", **FILE, "operations": "write", "value": 66}, {**SETUP, "under": [WRITE]}, ACTED),
    "block.corrupt.removed": (
        {"kind": "block.corrupt", **FILE},
        {**SETUP, "under": [READ, "stormcell-guest block heal fault"]}, NOT_IN_FORCE),
    "block.readonly": (
        {"kind": "block.readonly", **DATA}, {**SETUP, "under": ["touch /srv/data/new", READ]}, ACTED),
    "block.readonly.idle": ({"kind": "block.readonly", **FILE}, {**SETUP, "under": [READ]}, IDLE),
    "block.readonly.ended": (
        {"kind": "block.readonly", **DATA},
        {**SETUP, "under": ["mount -o remount,rw /srv/data"]}, NOT_IN_FORCE),
}  # fmt: skip
