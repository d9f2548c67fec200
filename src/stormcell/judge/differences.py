"""Branches of one instant against their control, probe by probe. Pure, and the same each time: draws have a seed.

Whether an attempt succeeds is tested with Fisher's exact test, how long answers take with Mann and Whitney's; the p
values of all tests of an experiment are corrected together (Holm). Every difference has its 95 % interval: Newcombe's
for success rates, the bootstrap's for quantiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from stormcell.guest import measure
from stormcell.judge import significance, statistics
from stormcell.judge.case import Case
from stormcell.judge.probes import Measurement
from stormcell.judge.statistics import Interval
from stormcell.spec.comparison import Difference
from stormcell.spec.probe import METRICS

QUANTILES = (50, 95)
UNDER = "under"
AFTER = "recovery"
NO_MORE = "no more than was seen without a fault"
TOO_FEW = "too few samples to show any difference"
NOTHING = "nothing was answered"
ONCE = "measured once on each side: there is no test"


@dataclass(frozen=True)
class _Row:
    """A difference on its way: `family` names rows that rest on one test."""

    found: Difference
    family: tuple[str, str, str]
    calm: Callable[[], Iterable[Interval]] = tuple
    """The intervals of the same difference where there was no fault; asked for only where the test finds one."""


def differences(control: Case, branches: Mapping[str, Case]) -> tuple[list[Difference], int]:
    """All rows in the order of the branches and probes, and the number of tests that were made."""
    rows = [row for name, case in branches.items() for row in _rows(name, control, case)]
    tested = {row.family: row.found.plain_p for row in rows if row.found.plain_p is not None}
    plain = [p for p in tested.values() if p is not None]
    corrected = dict(zip(tested, significance.holm(plain), strict=True))
    return [row.found for row in _decided(rows, corrected)], len(plain)


def deviates(rows: Sequence[Difference]) -> bool | None:
    """Of one branch: yes when one of its rows does; None when something that was tested cannot say."""
    if any(row.deviates for row in rows):
        return True
    tested = [row for row in rows if row.test]
    return None if not tested or any(row.deviates is None and row.note == TOO_FEW for row in tested) else False


def _decided(rows: Sequence[_Row], corrected: Mapping[tuple[str, str, str], float]) -> Iterator[_Row]:
    """With corrected p values, and with what they come to.

    Two machines differ a little in their latencies whatever is done to them, and one host is not equally busy at two
    times: enough answers show it. So a quantile deviates only where it differs by more than where there was no fault.
    """
    for row in rows:
        p = corrected.get(row.family)
        if p is None:
            yield row
            continue
        found, note = row.found, row.found.note
        says: bool | None = p < significance.ALPHA
        if says and found.test == "mann-whitney" and not _apart(row):
            says, note = False, NO_MORE
        if not says and _too_few(found, len(corrected)):
            says, note = None, TOO_FEW
        yield replace(row, found=found.model_copy(update={"p": p, "deviates": says, "note": note}))


def _apart(row: _Row) -> bool:
    low, high = row.found.low, row.found.high
    if low is None or high is None:
        return False
    return all(high < calm[0] or low > calm[1] for calm in row.calm())


def _too_few(found: Difference, tests: int) -> bool:
    return significance.least_p(found.samples, found.control_samples) * tests >= significance.ALPHA


def _rows(name: str, control: Case, branch: Case) -> Iterator[_Row]:
    base = {m.step.probe: m for m in control.phase(UNDER)}
    for mine in branch.phase(UNDER):
        other = base.get(mine.step.probe)
        if other is None:
            continue
        if mine.planned.kind in ("http", "tcp"):
            yield _success(name, mine, other)
            yield from _latency(name, mine, other, partial(_calm, mine.step.probe, control, branch))
        else:
            yield from _values(name, mine, other)


def _calm(probe: str, control: Case, branch: Case, quantile: statistics.Statistic) -> Iterator[Interval]:
    """Intervals of differences that no fault made: between the two before, and between the control's under and after.

    The latter either way round, since it is chance when the host was disturbed.
    """
    two = [_of(case, probe, "before") for case in (branch, control)]
    if between := statistics.bootstrap_difference([two[0]], [two[1]], quantile):
        yield between
    one = [_of(control, probe, phase) for phase in (UNDER, AFTER)]
    if within := statistics.bootstrap_difference([one[0]], [one[1]], quantile):
        low, high = within
        yield from ((low, high), (-high, -low))


def _of(case: Case, probe: str, phase: str) -> list[float]:
    return next((_answers(m) for m in case.phase(phase) if m.step.probe == probe), [])


def _success(name: str, mine: Measurement, other: Measurement) -> _Row:
    good, total, other_good, other_total = *_count(mine), *_count(other)
    interval = statistics.newcombe(good, total, other_good, other_total)
    p = significance.fisher(good, total, other_good, other_total)
    found = _difference(name, mine, other, "success_rate", interval, (total, other_total), "fisher", p)
    return _Row(found, (name, mine.step.probe, "success"))


def _latency(
    name: str, mine: Measurement, other: Measurement, calm: Callable[[statistics.Statistic], Iterator[Interval]]
) -> Iterator[_Row]:
    values, others = _answers(mine), _answers(other)
    rank = significance.mann_whitney(values, others)
    for per_cent in QUANTILES:
        quantile = statistics.quantile_of(per_cent)
        interval = statistics.bootstrap_difference([values], [others], quantile)
        p = rank.p if rank else None
        sizes = (len(values), len(others))
        found = _difference(name, mine, other, f"p{per_cent}", interval, sizes, "mann-whitney", p)
        note = NOTHING if rank is None else "; ".join(_doubts(mine, other, sizes, per_cent))
        yield _Row(found.model_copy(update={"note": note}), (name, mine.step.probe, "latency"), partial(calm, quantile))


def _doubts(mine: Measurement, other: Measurement, sizes: tuple[int, int], per_cent: int) -> Iterator[str]:
    if per_cent > 50 and min(sizes) < statistics.smallest_count(per_cent):
        yield f"the largest of {min(sizes)} answers"
    if silent := len(mine.samples) + len(other.samples) - sum(sizes):
        yield f"without {silent} attempts that were not answered"


def _values(name: str, mine: Measurement, other: Measurement) -> Iterator[_Row]:
    """What is measured once: the numbers themselves."""
    for metric in dict.fromkeys(bound.metric for bound in mine.step.bounds):
        found = _difference(name, mine, other, metric, None, (len(mine.samples), len(other.samples)), "", None)
        yield _Row(found.model_copy(update={"note": ONCE}), (name, mine.step.probe, metric))


def _difference(
    name: str,
    mine: Measurement,
    other: Measurement,
    metric: str,
    interval: Interval | None,
    sizes: tuple[int, int],
    test: Literal["", "fisher", "mann-whitney"],
    p: float | None,
) -> Difference:
    value, base = mine.result.metrics.get(metric), other.result.metrics.get(metric)
    low, high = interval or (None, None)
    return Difference(
        branch=name,
        probe=mine.step.probe,
        vantage=mine.planned.seen_from,
        metric=metric,
        unit=METRICS[mine.planned.kind][metric].unit,
        control=base,
        measured=value,
        difference=value - base if value is not None and base is not None else None,
        low=low,
        high=high,
        test=test if p is not None else "",
        plain_p=p,
        samples=sizes[0],
        control_samples=sizes[1],
    )


def _count(m: Measurement) -> tuple[int, int]:
    good = sum(measure.succeeded(m.planned.kind, m.planned.spec, sample) for sample in m.samples)
    return good, len(m.samples)


def _answers(m: Measurement) -> list[float]:
    return [float(sample[1]) for sample in m.samples if sample[1] is not None]
