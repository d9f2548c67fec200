"""Who a sealed machine is, and what it draws from, as a function of the seed alone. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

ENTROPY_BYTES = 64


def resume_request(seed: int, boot: int = 0) -> dict[str, Any]:
    """For the guest's `resume`: entropy, machine id and generation. `boot` counts the boots of the run.

    The wall clock goes on where the template's stood: 2026-01-01 and what the guest has lived since.
    """
    return {
        "op": "resume",
        "wall_clock_ns": 0,
        "advance_ns": 0,
        "hostname": "stormcell",
        "machine_id": _drawn(seed, f"machine id {boot}", 16),
        "generation": _drawn(seed, f"generation {boot}", 8),
        "entropy": _drawn(seed, f"entropy {boot}", ENTROPY_BYTES),
    }


def _drawn(seed: int, what: str, size: int) -> str:
    return hashlib.shake_256(f"stormcell sealed run, seed {seed}: {what}".encode()).hexdigest(size)
