"""The catalogue: what can be done to a machine, one small file a kind."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from stormcell.faults.clock_jump import ClockJump
from stormcell.faults.cpu_limit import CpuLimit
from stormcell.faults.disk_fill import DiskFill
from stormcell.faults.disk_inodes import DiskInodes
from stormcell.faults.dns_drop import DnsDrop
from stormcell.faults.machine_crash import MachineCrash
from stormcell.faults.memory_limit import MemoryLimit
from stormcell.faults.net_delay import Delay
from stormcell.faults.net_drop import Drop
from stormcell.faults.net_loss import Loss
from stormcell.faults.net_rate import Rate
from stormcell.faults.net_reject import Reject
from stormcell.faults.process_kill import ProcessKill
from stormcell.spec.fault import Fault
from stormcell.spec.value import nearest

_KINDS: tuple[type[Fault], ...] = (
    Delay, Loss, Rate, Drop, Reject, DnsDrop, MemoryLimit, CpuLimit, DiskFill, DiskInodes, ClockJump, ProcessKill,
    MachineCrash,
)  # fmt: skip

CATALOGUE: dict[str, type[Fault]] = {fault.kind: fault for fault in _KINDS}
"""Every fault by its kind."""


def parse(mapping: Mapping[str, Any]) -> Fault:
    """The fault that a spec's `fault` mapping describes. Raises ValidationError; its locations start in the mapping."""
    kind = mapping.get("kind")
    if not isinstance(kind, str) or kind not in CATALOGUE:
        error = PydanticCustomError(
            "unknown_kind",
            "there is no fault '{kind}'; {hint}",
            {"kind": str(kind), "hint": nearest(str(kind), CATALOGUE)},
        )
        raise ValidationError.from_exception_data("fault", [InitErrorDetails(type=error, loc=("kind",), input=kind)])
    return CATALOGUE[kind].model_validate({key: value for key, value in mapping.items() if key != "kind"})


__all__ = ["CATALOGUE", "parse"]
