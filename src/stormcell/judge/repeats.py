"""What a finished run hands to the statistics of its campaign. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stormcell.guest import measure
from stormcell.judge.case import build
from stormcell.judge.probes import Measurement
from stormcell.spec.matrix import RunLine
from stormcell.spec.plan import Plan
from stormcell.spec.probe import METRICS
from stormcell.spec.receipt import Receipt


@dataclass(frozen=True)
class Sight:
    """One probe in one phase of one run."""

    probe: str
    kind: str
    phase: str
    vantage: str
    attempts: int
    """0 for a command or a file."""
    succeeded: int
    latencies: tuple[float, ...]
    metrics: Mapping[str, float | None]
    """Of a command or a file: those that are bounded. Of a recovery: `recovered_after`."""


@dataclass(frozen=True)
class Run:
    """One run of a cell. `sights` is empty unless something was learnt from it."""

    line: RunLine
    sights: tuple[Sight, ...] = ()


def sights(plan: Plan, events: Sequence[Mapping[str, Any]], receipts: Mapping[str, Receipt]) -> tuple[Sight, ...]:
    """Everything that was measured in a run."""
    return tuple(_sight(m) for m in build(plan, events, receipts).measurements)


def _sight(m: Measurement) -> Sight:
    base = (m.step.probe, m.planned.kind, m.step.phase, m.step.on)
    if m.step.phase == "recovery":
        # its tries are not the whole measurement
        return Sight(*base, 0, 0, (), {"recovered_after": m.result.seconds})
    if m.planned.kind in ("http", "tcp"):
        good = sum(measure.succeeded(m.planned.kind, m.planned.spec, sample) for sample in m.samples)
        answered = tuple(float(sample[1]) for sample in m.samples if sample[1] is not None)
        return Sight(*base, len(m.samples), good, answered, {})
    bounded = {bound.metric for bound in m.step.bounds}
    return Sight(*base, 0, 0, (), {name: value for name, value in m.result.metrics.items() if name in bounded})


def unit_of(kind: str, metric: str) -> str:
    """What a metric is measured in."""
    if metric == "recovered_after":
        return "duration"
    return METRICS[kind][metric].unit
