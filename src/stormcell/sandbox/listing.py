"""Every sandbox of a home, as a person wants to see it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from stormcell.sandbox.hostclock import boot_id, boottime_ns
from stormcell.sandbox.memory import pss_bytes
from stormcell.sandbox.survey import Found, decide_now, look_at_all
from stormcell.spec.home import Home


@dataclass(frozen=True)
class Row:
    """`state` is creating, waiting (in a pool), running, paused, dead (its machine ended) or left (gc would remove it,
    see `why`)."""

    id: str
    template: str
    state: str
    why: str
    age_s: float
    ttl_left_s: float
    ports: Mapping[str, int]
    memory_pss: int
    pid: int | None
    metadata: Mapping[str, str]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def rows(home: Home) -> list[Row]:
    """Oldest first."""
    return sorted((_row(found) for found in look_at_all(home.sandboxes)), key=lambda row: -row.age_s)


def _row(found: Found) -> Row:
    record, lease = found.record, found.lease
    decision = decide_now(found)
    machine = found.machines[0] if found.machines else None
    return Row(
        id=record.id if record else found.folder.name,
        template=record.template_name if record else "?",
        state="left" if decision.remove else _state(found),
        why=decision.reason if decision.remove else "",
        age_s=max(0.0, time.time() - record.created) if record else 0.0,
        ttl_left_s=max(0.0, lease.left_seconds(boottime_ns(), boot_id())) if lease else 0.0,
        ports=record.ports if record else {},
        memory_pss=pss_bytes(machine.pid) if machine else 0,
        pid=machine.pid if machine else None,
        metadata=record.metadata if record else {},
    )


def _state(found: Found) -> str:
    record = found.record
    if record is None or record.state == "creating":
        return "creating"
    if not found.machines and (record.state == "running" or record.machine is not None):
        return "dead"
    if record.state == "waiting":
        return "waiting"
    return "paused" if (found.folder / "paused").exists() else "running"
