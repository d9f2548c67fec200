"""Specs (one file a family in cases/) that between them use every parameter, and real readings of fault_record.py."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

from stormcell import faults
from stormcell.spec.fault import Fault, Reading

HERE = Path(__file__).parent
READINGS = HERE / "readings"
GOLDEN = HERE / "golden"

SPECS: dict[str, dict[str, Any]] = {
    kind: fault.example for kind, fault in faults.CATALOGUE.items() if not fault.unavailable
}
for _path in sorted((HERE / "cases").glob("*.py")):
    SPECS |= import_module(f"tests.unit.faults.cases.{_path.stem}").SPECS


class Recorded:
    """One file of readings with what the receipt said then."""

    def __init__(self, path: Path) -> None:
        document = json.loads(path.read_text())
        self.name = path.stem
        self.spec: dict[str, Any] = document["fault"]
        self.fault: Fault = faults.parse(self.spec)
        self.in_force: bool = document["in_force"]
        self.acted: int = document["acted"]
        self.clean: bool | None = document["clean"]
        self.readings = {label: Reading.model_validate(item) for label, item in document["readings"].items()}
        self.before, self.during = self.readings["before"], self.readings["during"]
        self.after = self.readings["after"]
        self.undone = self.readings.get("undone")


def recorded(*kinds: str) -> list[Recorded]:
    """All of them, or those of some kinds."""
    found = [Recorded(path) for path in sorted(READINGS.glob("*.json"))]
    return [one for one in found if not kinds or one.fault.kind in kinds]


def one(name: str) -> Recorded:
    """By file name."""
    return Recorded(READINGS / f"{name}.json")


def compares(name: str, other: dict[str, Any]) -> None:
    """The readings of a recording show its own parameters, and no others; None in `other` takes one away."""
    record = one(name)
    spec = {key: value for key, value in {**record.spec, **other}.items() if value is not None}
    assert record.fault.in_force(record.before, record.during)
    assert not faults.parse(spec).in_force(record.before, record.during)
