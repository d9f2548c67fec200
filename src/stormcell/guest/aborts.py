"""Abort conditions: measured beside the steps of the run until one is met."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stormcell.guest import measure, probes
from stormcell.guest.offspring import Child
from stormcell.guest.running import Runnery


def work(aborts: Sequence[Mapping[str, Any]], kinds: Mapping[str, str], seed: int) -> Callable[[Child], None]:
    """For an Offspring: writes one `abort` event when a condition is met, and ends then. `kinds` are the probes'."""

    def watch(child: Child) -> None:
        due = [0.0] * len(aborts)
        while True:
            for number, abort in enumerate(aborts):
                if child.lifeline.now() < due[number]:
                    continue
                found, why = _measure(child, abort, kinds, f"{seed}/abort.{number}")
                due[number] = child.lifeline.now() + abort["every_s"]
                met, text = measure.met(found, abort["bounds"])
                if met:
                    child.emit("abort", condition=abort["name"], checks=met, text=f"{abort['name']}: {text}{why}")
                    return
            child.lifeline.sleep(max(0.01, min(due) - child.lifeline.now()))

    return watch


def _measure(
    child: Child, abort: Mapping[str, Any], kinds: Mapping[str, str], seed: str
) -> tuple[dict[str, float | None], str]:
    if abort["file"] is not None:
        return {"number": number_in(abort["file"], abort["key"])}, ""
    kind = kinds[abort["probe"]]
    run = Runnery(child.lifeline).run
    taken = probes.take(kind, abort["spec"], seed=seed, wait=child.lifeline.wait, run=run)
    return measure.metrics(kind, abort["spec"], taken.samples), f" (n = {len(taken.samples)})"


def look_before(abort: Mapping[str, Any], measured: Mapping[str, dict[str, float | None]]) -> tuple[str, str] | None:
    """Before the first act: why a run with this condition would prove nothing, as the code and text of a Stop.

    `measured` holds what the probes showed before the fault.
    """
    found = measured.get(abort["probe"], {})
    if abort["file"] is not None:
        number, why = _read_number(abort["file"], abort["key"])
        if number is None:
            return "abort_unreadable", f"the abort condition '{abort['name']}' cannot be watched: {why}"
        found = {"number": number}
    met, text = measure.met(found, abort["bounds"])
    if met:
        return "aborted_before", f"the abort condition is met before any fault is begun: {abort['name']}: {text}"
    return None


def number_in(path: str, key: str | None) -> float | None:
    """The number in a file of the kernel, or behind `key` in one of `key value` lines. None when it is not there."""
    return _read_number(path, key)[0]


def _read_number(path: str, key: str | None) -> tuple[float | None, str]:
    """The number, or why there is none."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            words = [line.split() for line in file]
    except OSError as error:
        return None, f"{path}: {error.strerror}"
    for line in words:
        if (key is None and len(line) == 1) or (len(line) == 2 and line[0] == key):
            try:
                return float(line[-1]), ""
            except ValueError:
                return None, f"{path} says '{line[-1][:40]}' there, which is no number"
    keys = [line[0] for line in words if len(line) == 2]
    there = f"its keys are {', '.join(keys[:12])}" if keys else "it has no `key value` lines"
    return None, f"{path} has no line with one number; {there}" if key is None else f"{path} has no '{key}'; {there}"
