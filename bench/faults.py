"""How long each kind takes: from the act to the kernel's answer, and from the undo to the look that finds it clean.

What makes a fault act is taken from the recordings of the tests (tests/guest/faults/recordings).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from stormcell.faults import CATALOGUE
from stormcell.guest.measure import quantile
from stormcell.template.model import Template
from tests.guest.faults.fault_record import CASES
from tests.guest.faults.fault_trial import Bench, Trial

REPEATS = int(os.environ.get("BENCH_REPEATS", "5"))
TOOLS = Path(__file__).parents[1] / "tests" / "guest" / "faults"
GOAL_S = 0.15
FAMILIES = os.environ.get("BENCH_FAMILIES", "").split()
"""Only these; the others keep their figures."""


def measure(template: Template) -> dict[str, Any]:
    """Kind to medians in seconds; a kind that did not act is named with what it said.

    Kinds that the host carries out are left out: their events have no time of the guest.
    """
    found: dict[str, Any] = {}
    for kind, fault in CATALOGUE.items():
        wanted = not FAMILIES or kind.partition(".")[0] in FAMILIES
        if wanted and kind in CASES and not (fault.unavailable or fault.on_machine):
            found[kind] = _kind(template, kind)
            _print(kind, found[kind])
    return found


def _kind(template: Template, kind: str) -> dict[str, Any]:
    spec, parts, _ = CASES[kind]
    act, undo = [], []
    bench = Bench(template)
    try:
        for tool in TOOLS.glob("*_tool.py"):
            bench.put(f"/root/{tool.name}", tool.read_text())
        bench.put("/root/tool.py", (TOOLS / "network_tool.py").read_text())
        for _ in range(REPEATS):
            trial = bench.attempt(spec, **parts)
            if not trial.receipt.in_force:
                return {"error": trial.stop or "not in force"}
            act.append(_between(trial, "receipt", "during"))
            undo.append(_between(trial, "after", "undone"))
    finally:
        bench.close()
    return {"act_s": quantile(act, 50), "undo_s": quantile(undo, 50), "n": REPEATS}


def _between(trial: Trial, first: str, last: str) -> float:
    """From one event (a receipt, or a reading by its label) to another, on the clock of whoever wrote them."""
    times = {_name(event): float(event["t"]) for event in _timed(trial.events)}
    return times[last] - times[first]


def _timed(events: Iterable[Mapping[str, Any]]) -> Iterable[Mapping[str, Any]]:
    return (event for event in events if event["event"] in ("receipt", "reading") and "t" in event)


def _name(event: Mapping[str, Any]) -> str:
    return str(event.get("label") or event["event"])


def _print(kind: str, found: Mapping[str, Any]) -> None:
    if "error" in found:
        print(f"{kind:24} {found['error'][:90]}")
        return
    late = "" if max(found["act_s"], found["undo_s"]) <= GOAL_S else "   above 150 ms"
    print(f"{kind:24} act {found['act_s'] * 1000:6.0f} ms   undo {found['undo_s'] * 1000:6.0f} ms{late}")
    sys.stdout.flush()
