"""What was done and what the kernel said before, during and after."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from stormcell.spec.fault import Command, Output, Reading
from stormcell.spec.value import Value


class Held(Value):
    """How long one act, or change in place, was in force: from when it was done to when the next turn began."""

    cycle: int = 0
    level: str = ""
    """Of a ramp: the parameter's value."""
    asked_s: float | None = None
    """None: until the undo step, whenever that comes."""
    had_s: float | None = None
    """None: it is not known, or it was never in force."""


class Receipt(Value):
    """One fault of one run.

    Readings by label: `before` the act, `during` (just after it), `after` (just before the undo), `undone` (after it);
    those of later cycles of a schedule are named `before.1` and so on.
    `in_force`, `acted` and `clean` are the fault's own judgement of them; None where a reading is missing.
    """

    fault: str
    kind: str
    params: dict[str, Any]
    counts: str
    undo: tuple[Command, ...] = ()
    missing: tuple[str, ...] = ()
    """Needs that the guest does not meet, each with its reason. Not empty: unsupported here."""
    applied: tuple[Output, ...] = ()
    apply_ok: bool | None = None
    undo_ok: bool | None = None
    readings: dict[str, Reading] = Field(default_factory=dict)
    in_force: bool | None = None
    acted: int | None = None
    clean: bool | None = None
    cycles: int = 0
    """Of a fault with a schedule: how often it acted, or was changed in place. 0 for one without."""
    held: tuple[Held, ...] = ()
    """One for each cycle that was planned."""
    notes: tuple[str, ...] = ()
