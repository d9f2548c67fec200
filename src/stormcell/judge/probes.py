"""Measurements out of events: computed again from the samples, and compared with what the guest computed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stormcell.guest import measure
from stormcell.judge.statistics import wilson
from stormcell.judge.wording import percent
from stormcell.spec.plan import Plan, PlannedProbe, ProbeStep, RecoverStep
from stormcell.spec.verdict import Check, ProbeResult

_CLOSE = 1e-9


class Malformed(ValueError):
    """An event that no runner writes."""


@dataclass(frozen=True)
class Measurement:
    """One `probe` or `recovered` event, judged again."""

    step: ProbeStep | RecoverStep
    planned: PlannedProbe
    samples: Sequence[Sequence[Any]]
    result: ProbeResult
    measured: bool
    agrees: bool
    """Whether the one who measured computed the same."""
    in_time: bool
    """For recovery: the try that held began within the limit, or was the first."""
    interval: tuple[float, float] | None
    """95 % interval of the success rate."""

    @property
    def sent(self) -> int:
        """Attempts made; 1 for a command or a file."""
        return int(self.result.metrics.get("sent") or 0) if self.planned.kind in ("http", "tcp") else len(self.samples)


def measurement(plan: Plan, step: ProbeStep | RecoverStep, event: Mapping[str, Any]) -> Measurement:
    """Judge one event of `step` again. Raises Malformed."""
    planned = plan.probes[step.probe]
    if event.get("probe") != step.probe or event.get("on", "guest") != step.on:
        raise Malformed(f"step '{step.id}' is not probe '{event.get('probe')}' seen from the {event.get('on')}")
    spec: Mapping[str, Any] = planned.spec
    bounds: Sequence[Mapping[str, Any]] = [bound.model_dump() for bound in step.bounds]
    if isinstance(step, RecoverStep):
        spec, bounds, _ = measure.for_recovery(planned.kind, spec, bounds)
    samples = [_sample(planned.kind, raw) for raw in _list(event.get("samples"))]
    found = measure.metrics(planned.kind, spec, samples)
    holds = measure.holds(found, bounds)
    measured = measure.measured(planned.kind, step.phase, samples, found, bounds)
    interval, note = _success(planned.kind, spec, samples)
    seconds, in_time = _recovery(step, event) if isinstance(step, RecoverStep) else (None, True)
    return Measurement(
        step=step,
        planned=planned,
        samples=samples,
        result=ProbeResult(
            probe=step.probe,
            phase=step.phase,
            vantage=planned.seen_from,
            samples=len(samples),
            metrics=found,
            checks=tuple(Check.model_validate(check) for check in measure.checks(found, bounds)),
            holds=holds,
            seconds=seconds,
            detail="; ".join(part for part in (note, str(event.get("detail") or "")[:500]) if part),
        ),
        measured=measured,
        agrees=event.get("holds") is holds and event.get("measured") is measured and _same(event.get("metrics"), found),
        in_time=in_time,
        interval=interval,
    )


def _success(
    kind: str, spec: Mapping[str, Any], samples: Sequence[Sequence[Any]]
) -> tuple[tuple[float, float] | None, str]:
    if kind not in ("http", "tcp") or not samples:
        return None, ""
    good = sum(measure.succeeded(kind, spec, sample) for sample in samples)
    interval = wilson(good, len(samples))
    between = f" (95 % interval {percent(interval[0])} to {percent(interval[1])})" if interval else ""
    return interval, f"{good} of {len(samples)} succeeded{between}"


def _recovery(step: RecoverStep, event: Mapping[str, Any]) -> tuple[float, bool]:
    seconds, began, attempts = (event.get(key) for key in ("seconds", "began_s", "attempts"))
    if not (_number(seconds) and _number(began) and isinstance(attempts, int) and attempts >= 1):
        raise Malformed(f"the recovery of '{step.probe}' says not when it was measured")
    assert isinstance(seconds, int | float) and isinstance(began, int | float)
    return float(seconds), attempts == 1 or began <= step.within_s


def _list(raw: object) -> list[Any]:
    if not isinstance(raw, list):
        raise Malformed("its samples are no list")
    return raw


def _sample(kind: str, raw: object) -> list[Any]:
    with_facts = kind in ("command", "file")
    if not isinstance(raw, list | tuple) or len(raw) != (4 if with_facts else 3):
        raise Malformed(f"{str(raw)[:80]} is no sample of a {kind} probe")
    offset, latency, outcome = raw[:3]
    if not _number(offset) or not (latency is None or _number(latency)):
        raise Malformed(f"{str(raw)[:80]} has no times")
    if isinstance(outcome, bool) or not isinstance(outcome, int | str):
        raise Malformed(f"{str(raw)[:80]} has no outcome")
    if with_facts and not isinstance(raw[3], Mapping):
        raise Malformed(f"{str(raw)[:80]} says not what was seen")
    return list(raw)


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value >= 0


def _same(said: object, found: Mapping[str, float | None]) -> bool:
    if not isinstance(said, Mapping) or set(said) != set(found):
        return False
    return all(_equal(said[name], value) for name, value in found.items())


def _equal(said: object, value: float | None) -> bool:
    if said is None or value is None or isinstance(said, bool) or not isinstance(said, int | float):
        return said is None and value is None
    return abs(said - value) <= _CLOSE * max(1.0, abs(value))


def failing(measurements: Iterable[Measurement]) -> set[str]:
    """Probes that broke a bound under the fault or did not recover in time."""
    return {
        m.step.probe
        for m in measurements
        if m.step.phase in ("under", "recovery") and not (m.result.holds and m.in_time)
    }
