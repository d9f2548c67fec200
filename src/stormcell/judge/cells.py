"""Many runs in, one matrix out: shares with Wilson's interval, quantiles with a bootstrap interval, cautions.

Pure: the same runs give the same numbers, since the bootstrap draws from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from stormcell.judge import statistics
from stormcell.judge.repeats import Run, Sight, unit_of
from stormcell.judge.wording import percent
from stormcell.spec.matrix import CellResult, Proportion, RunLine, Summary
from stormcell.spec.verdict import Verdict

ORDER = (Verdict.FAILED, Verdict.UNKNOWN, Verdict.VOID, Verdict.SURVIVED)
QUANTILES = (50, 95, 99)
PHASES = ("before", "under", "recovery")


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """Of several: as the exit codes have it, the first of failed, unknown, void, survived."""
    seen = set(verdicts)
    return next((verdict for verdict in ORDER if verdict in seen), None)


def proportion(good: int, total: int) -> Proportion:
    """With its interval."""
    interval = statistics.wilson(good, total)
    low, high = interval or (None, None)
    few = interval is None or interval[1] - interval[0] > statistics.WIDE
    return Proportion(good=good, total=total, low=low, high=high, few=few)


def counts(lines: Iterable[RunLine]) -> dict[str, int]:
    """How many runs came to what."""
    found = dict.fromkeys(("survived", "failed", "void", "unknown", "lost", "unfinished"), 0)
    for line in lines:
        found[line.verdict.value if line.state == "finished" and line.verdict else line.state] += 1
    return found


def cell(name: str, digest: str, at: Mapping[str, str], kinds: Sequence[str], runs: Sequence[Run]) -> CellResult:
    """All runs of one cell together."""
    lines = tuple(run.line for run in runs)
    found = counts(lines)
    learnt = [run for run in runs if run.line.verdict in (Verdict.SURVIVED, Verdict.FAILED)]
    share = proportion(found["survived"], found["survived"] + found["failed"])
    verdicts = [line.verdict for line in lines if line.verdict is not None]
    verdicts += [Verdict.UNKNOWN] * found["lost"]
    return CellResult(
        name=name,
        digest=digest,
        at=dict(at),
        kinds=tuple(kinds),
        verdict=worst(verdicts),
        counts=found,
        survived=share,
        runs=lines,
        summaries=tuple(_summaries(learnt)),
        cautions=tuple(_cautions(share, found)),
    )


def _cautions(share: Proportion, found: Mapping[str, int]) -> Iterator[str]:
    """Whether the verdict rests on too few samples, in words."""
    if share.total and share.low is not None and share.high is not None:
        between = f"{percent(share.low)} to {percent(share.high)} (95 % interval)"
        if share.few:
            yield (
                f"too few runs to say how often: {share.good} of {share.total} survived, and any true share from "
                f"{between} would look like that"
            )
    lost = {name: count for name, count in found.items() if count and name in ("void", "unknown", "lost")}
    if lost:
        named = ", ".join(f"{count} {name}" for name, count in lost.items())
        yield f"nothing was learnt from some of its runs ({named}); they are in no share and no interval"


def _summaries(runs: Sequence[Run]) -> Iterator[Summary]:
    groups: dict[tuple[str, str], list[Sight]] = {}
    for run in runs:
        for sight in run.sights:
            groups.setdefault((sight.probe, sight.phase), []).append(sight)
    ordered = {probe: None for probe, _ in groups}
    for probe in ordered:
        for phase in PHASES:
            if seen := groups.get((probe, phase)):
                yield from _of_attempts(seen) if seen[0].attempts else _of_values(seen)


def _of_attempts(seen: Sequence[Sight]) -> Iterator[Summary]:
    total, good = sum(s.attempts for s in seen), sum(s.succeeded for s in seen)
    low, high = statistics.wilson(good, total) or (None, None)
    note = "attempts of one run resemble each other: the interval is too narrow" if len(seen) > 1 else ""
    yield _summary(seen, "success_rate", good / total if total else None, low, high, total, note)
    answered = [list(s.latencies) for s in seen if s.latencies]
    pooled = [value for latencies in answered for value in latencies]
    for per_cent, interval in zip(QUANTILES, statistics.bootstrap_quantiles(answered, QUANTILES), strict=True):
        value = statistics.quantile(pooled, per_cent)
        low, high = interval or (None, None)
        note = _doubt(len(answered), len(pooled), per_cent)
        yield _summary(seen, f"p{per_cent}", value, low, high, len(pooled), note)


def _of_values(seen: Sequence[Sight]) -> Iterator[Summary]:
    """A number a run: the median over the runs."""
    for metric in dict.fromkeys(name for sight in seen for name in sight.metrics):
        values = [value for sight in seen if (value := sight.metrics.get(metric)) is not None]
        median = statistics.quantile(values, 50)
        low, high = statistics.bootstrap([[value] for value in values], statistics.quantile_of(50)) or (None, None)
        counted = metric == "exit_code" or unit_of(seen[0].kind, metric) == "bool"
        note = "" if counted or len(values) >= statistics.FEWEST else _few_runs(len(values))
        yield _summary(seen, metric, median, low, high, len(values), note)


def _summary(
    seen: Sequence[Sight], metric: str, value: float | None, low: float | None, high: float | None, n: int, note: str
) -> Summary:
    first = seen[0]
    return Summary(
        probe=first.probe,
        phase=first.phase,
        vantage=first.vantage,
        metric=metric,
        unit=unit_of(first.kind, metric),
        value=value,
        low=low,
        high=high,
        runs=len(seen),
        samples=n,
        note=note,
    )


def _doubt(runs: int, samples: int, per_cent: int) -> str:
    if 0 < samples < (need := statistics.smallest_count(per_cent)):
        return f"of fewer than {need} answers it is the largest one"
    if runs == 1:
        return "of one run: it says nothing about another one"
    return "" if runs >= statistics.FEWEST else _few_runs(runs)


def _few_runs(runs: int) -> str:
    some = "run" if runs == 1 else "runs"
    return f"of {runs} {some}: an interval needs {statistics.FEWEST} or it is too narrow"
