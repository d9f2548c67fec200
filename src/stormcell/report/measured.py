"""Measurements: the numbers in a table, the latencies as distributions. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from stormcell.guest import measure
from stormcell.judge.case import Case
from stormcell.judge.probes import Measurement
from stormcell.judge.wording import quantity
from stormcell.report.evidence import Limit, Measured, Spread, SpreadRow
from stormcell.report.words import NAME, words

LATENCIES = ("p50", "p95", "p99", "max")
MOST_VALUES = 300
"""Ranks kept of one distribution; the least and the greatest are always among them."""
SHOWN = {"http": ("success_rate", "p50", "p95"), "tcp": ("success_rate", "p50", "p95")}
"""Metrics that are told even when nothing is asked of them."""


def good(m: Measurement, sample: Sequence[Any]) -> bool:
    """Whether one sample counts as a success; of a command or a file: whether the measurement held."""
    if m.planned.kind in ("http", "tcp"):
        return measure.succeeded(m.planned.kind, m.planned.spec, sample)
    return m.result.holds


def table(case: Case) -> Iterator[Measured]:
    """Every metric that was asked for or is always told, in the order of the plan."""
    for m in case.measurements:
        checks = {check.metric: check for check in m.result.checks}
        shown = [*dict.fromkeys((*SHOWN.get(m.planned.kind, ()), *checks))]
        for metric in shown:
            wanted = [check for check in m.result.checks if check.metric == metric]
            value = m.result.metrics.get(metric)
            yield Measured(
                probe=words(m.step.probe, NAME),
                vantage=m.planned.seen_from,
                phase=m.step.phase,
                metric=metric,
                value=value,
                text=quantity(m.planned.kind, metric, value),
                wanted=words(" and ".join(check.wanted for check in wanted), NAME),
                holds=all(check.holds for check in wanted) if wanted else None,
                samples=len(m.samples),
                after=m.result.seconds,
            )


def spreads(case: Case) -> Iterator[Spread]:
    """One for each probe that makes attempts."""
    for name, planned in case.plan.probes.items():
        rows = [_row(m) for m in case.measurements if m.step.probe == name and planned.kind in ("http", "tcp")]
        if rows:
            yield Spread(words(name, NAME), planned.seen_from, tuple(rows))


def _row(m: Measurement) -> SpreadRow:
    answered = sorted(float(sample[1]) for sample in m.samples if sample[1] is not None)
    missed = [sample for sample in m.samples if not good(m, sample)]
    others = Counter(words(sample[2], 60) for sample in missed)
    return SpreadRow(
        phase=m.step.phase,
        attempts=len(m.samples),
        answered=len(answered),
        succeeded=len(m.samples) - len(missed),
        interval=m.interval,
        values=_thinned(answered),
        p50=m.result.metrics.get("p50"),
        p95=m.result.metrics.get("p95"),
        limits=tuple(_limits(m)),
        outcomes=tuple(others.most_common(5)),
    )


def _limits(m: Measurement) -> Iterator[Limit]:
    checks = {(check.metric, check.wanted): check.holds for check in m.result.checks}
    for bound in m.step.bounds:
        measured = m.result.metrics.get(bound.metric)
        holds = checks.get((bound.metric, bound.text), False)
        yield Limit(bound.metric, words(bound.text, NAME), bound.value, measured, holds)


def _thinned(values: list[float]) -> tuple[float, ...]:
    if len(values) <= MOST_VALUES:
        return tuple(values)
    last = len(values) - 1
    return tuple(values[round(last * place / (MOST_VALUES - 1))] for place in range(MOST_VALUES))
