"""Measure one thing once. The same code looks from the guest and from the host."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from typing import Any

from stormcell.guest.probes import attempts, command, file, http, tcp, within
from stormcell.guest.probes.attempts import Taken
from stormcell.guest.probes.waiting import Wait, plain_wait
from stormcell.guest.running import Finished, Run

__all__ = ["Finished", "Taken", "Wait", "main", "take"]


def take(
    kind: str,
    spec: Mapping[str, Any],
    *,
    seed: str = "",
    wait: Wait = plain_wait,
    run: Run | None = None,
    promising: Callable[[list[list[Any]]], bool] | None = None,
) -> Taken:
    """Samples of one probe, in the form that `measure` reads.

    `seed` decides the arrival times of a steady rate. `wait` is how the caller's thread sleeps; what it raises leaves
    this function. `run` runs a command and is needed for that kind only. With `count`, the measurement ends early
    once `promising(samples)` is false.
    """
    if kind == "command":
        if run is None:
            raise ValueError("a command probe needs a way to run commands")
        return command.take(spec, run)
    node = spec.get("node")
    if kind == "file":
        return within.called_in(node, lambda: file.take(spec))
    attempt = within.attempts_in(node, {"http": http.attempt, "tcp": tcp.attempt}[kind](spec))
    if spec.get("rate"):
        arrivals = attempts.arrivals(spec["rate"], spec["duration"], seed)
        return attempts.at_times(attempt, arrivals, timeout=spec["timeout"], wait=wait)
    return attempts.one_by_one(attempt, spec.get("count") or 1, timeout=spec["timeout"], wait=wait, promising=promising)


def main(argv: list[str]) -> int:
    """`probe`: reads {kind, spec, seed} on stdin, prints {samples, metrics, detail}."""
    from stormcell.guest import measure
    from stormcell.guest.lifeline import Lifeline
    from stormcell.guest.running import Runnery

    wanted = json.loads(sys.stdin.readline())
    kind, spec = wanted["kind"], wanted["spec"]
    lifeline = Lifeline(None)
    taken = take(kind, spec, seed=str(wanted.get("seed", "")), wait=lifeline.wait, run=Runnery(lifeline).run)
    found = measure.metrics(kind, spec, taken.samples)
    sys.stdout.write(json.dumps({"samples": taken.samples, "metrics": found, "detail": taken.detail}) + "\n")
    return 0
