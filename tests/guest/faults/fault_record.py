"""Records real readings for the unit tests: `python -m tests.guest.faults.fault_record [NAME...]`.

Each case (one file a family in recordings/) is a fault with what goes on around it, and what its receipt must say; a
case that says otherwise is not written.
"""

from __future__ import annotations

import asyncio
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from stormcell.engine.api import run
from stormcell.engine.folder import read_receipts
from stormcell.sandbox.templates import resolve
from stormcell.spec.receipt import Receipt
from tests.guest.faults.fault_trial import Bench
from tests.guest.faults.recording import ACTED

READINGS = Path(__file__).parents[2] / "unit" / "faults" / "readings"
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], tuple[bool, bool, bool]]] = {}
RECIPES: dict[str, str] = {}
for _path in sorted((Path(__file__).parent / "recordings").glob("*.py")):
    _module = import_module(f"tests.guest.faults.recordings.{_path.stem}")
    CASES |= _module.CASES
    RECIPES |= getattr(_module, "RECIPES", {})


CRASHES: dict[str, dict[str, Any]] = {
    "machine.crash": {"mode": "power", "boot": True},
    "machine.crash.panic": {"mode": "panic", "boot": False},
    "machine.crash.reboot": {"mode": "reboot", "boot": False},
}


def crash(parameters: dict[str, Any]) -> Receipt:
    """A whole run: a crash is carried out by the host."""
    alive = {"name": "alive", "command": {"run": "true"}, "expect": {"exit_code": 0}}
    fault = {"kind": "machine.crash", **parameters}
    outcome = run({"name": "crash", "template": "base", "steady_state": [alive], "fault": fault})
    return read_receipts(outcome.folder)["fault"]


def write(name: str, judged: Receipt, expected: tuple[bool, bool, bool], why: str = "") -> None:
    """Raises AssertionError when the receipt says something else than the case wants."""
    got = (bool(judged.in_force), bool(judged.acted), judged.clean is not False)
    assert got == expected, (name, got, why, judged.notes)
    readings = {label: reading.model_dump(mode="json") for label, reading in judged.readings.items()}
    document = {
        "fault": {"kind": judged.kind, **judged.params},
        "in_force": judged.in_force,
        "acted": judged.acted,
        "clean": judged.clean,
        "readings": readings,
    }
    (READINGS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")


def record(names: list[str], recipe: str) -> None:
    """These cases, in a sandbox of that template."""
    bench = Bench(asyncio.run(resolve(recipe, None)))
    try:
        bench.put_tools()
        for name in names:
            spec, parts, expected = CASES[name]
            trial = bench.attempt(spec, **parts)
            write(name, trial.receipt, expected, trial.stop)
            sys.stderr.write(f"{name}\n")
    finally:
        bench.close()


def main(names: list[str]) -> None:
    """All cases, or those that are named."""
    chosen = [name for name in names or list(CASES) if name in CASES]
    for recipe in sorted({RECIPES.get(name, "base") for name in chosen}):
        record([name for name in chosen if RECIPES.get(name, "base") == recipe], recipe)
    for name, parameters in CRASHES.items():
        if not names or name in names:
            write(name, crash(parameters), ACTED)


if __name__ == "__main__":
    main(sys.argv[1:])
