"""What a failed test's report says of its runs and its machines."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from stormcell.engine.folder import read_receipts
from stormcell.engine.sealed.bundle import known
from stormcell.judge.wording import GUEST_TIME, starred
from stormcell.pytest_plugin.machines import Kept, machines_of
from stormcell.pytest_plugin.settings import RUNS
from stormcell.spec.errors import SpecError, StormcellError
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import FaultResult, ProbeResult, Result

MOST_RUNS = 10
MOST_REASONS = 8
TAIL = 15
"""Lines of a console, or of a service's log."""
LOOK_S = 10.0
PHASES = {"before": "before the fault", "under": "under the fault", "recovery": "after the fault"}


def sections(item: pytest.Item) -> list[tuple[str, str]]:
    """Titles and texts; none when the test used nothing of ours."""
    runs = item.stash.get(RUNS, [])[-MOST_RUNS:]
    found = [
        (f"stormcell run {result.experiment}: {result.verdict}", "\n".join(_run(result, at))) for result, at in runs
    ]
    for kept in machines_of(item):
        if said := "\n".join(_machine(kept)):
            found.append((f"stormcell {kept.what} {kept.sandbox.id}", said))
    return found


def _run(result: Result, folder: Path) -> Iterator[str]:
    yield f"folder: {folder}"
    if result.instruction_time and (sealed := known(folder)) is not None:
        yield f"sealed: {sealed.sentence}; repeat it: stormcell run --replay {folder}"
    for reason in result.reasons[:MOST_REASONS]:
        text = starred(reason.text) if result.instruction_time else reason.text
        yield f"{result.verdict}: {text} ({reason.code})"
    try:
        receipts: Mapping[str, Receipt] = read_receipts(folder)
    except SpecError as error:
        receipts = {}
        yield f"receipts: {error.what}"
    for fault in result.faults:
        yield from _receipt(fault, receipts.get(fault.fault))
    for probe in result.probes:
        yield _probe(probe)
    if result.instruction_time:
        yield f"* {GUEST_TIME}; all durations above are of it"


def _receipt(fault: FaultResult, receipt: Receipt | None) -> Iterator[str]:
    name = fault.kind if fault.fault == "fault" else f"{fault.fault} ({fault.kind})"
    params = ", ".join(f"{key}: {value}" for key, value in receipt.params.items()) if receipt else ""
    yield f"receipt of {name}{f' {{{params}}}' if params else ''}"
    yield f"  in force: {_said(fault.in_force)}; acted: {_acted(fault)}; nothing left: {_said(fault.clean)}"
    for note in fault.notes:
        yield f"  {note}"
    for command in receipt.undo if receipt else ():
        yield f"  undone by: {shlex.join(command.argv)}"


def _said(state: bool | None) -> str:
    return {True: "yes", False: "NO", None: "not known"}[state]


def _acted(fault: FaultResult) -> str:
    return "not known" if fault.acted is None else f"{fault.acted} {fault.counts}"


def _probe(probe: ProbeResult) -> str:
    checks = ", ".join(
        f"{check.metric} {'none' if check.measured is None else f'{check.measured:.6g}'} (wanted {check.wanted})"
        for check in probe.checks
    )
    when = PHASES.get(probe.phase, probe.phase)
    return f"probe {probe.probe} {when}, n = {probe.samples}: {checks}{'' if probe.holds else '  <- does not hold'}"


def _machine(kept: Kept) -> Iterator[str]:
    """While it lives: its console, and the logs of its services."""
    try:
        if console := kept.sandbox.console(TAIL).strip():
            yield f"console, the last {TAIL} lines:"
            yield from _indented(console)
        if kept.template is not None and kept.template.services:
            logs = [f"/run/stormcell/log/{name}.log" for name in kept.template.services]
            said = kept.sandbox.exec(["tail", "-v", "-n", str(TAIL), *logs], timeout=LOOK_S, max_output=1 << 20)
            yield f"services, the last {TAIL} lines of each:"
            yield from _indented(said.text)
    except StormcellError as error:
        yield f"(no more is known: {error.what})"


def _indented(text: str) -> Iterator[str]:
    return (f"  {line}" for line in text.splitlines())
