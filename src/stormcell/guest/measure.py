"""From samples to metrics, and from metrics to "holds". Pure; the runner's gate and the judge both use it.

A sample is `[offset_s, latency_s | null, outcome]`, with a fourth element `{...}` for what a command or a file showed:

    http     outcome: the status, or the name of an error; a latency exactly when a whole answer came
    tcp      outcome: "connected", or the name of an error
    command  outcome: the exit code, "timeout", "signal:N" or "not_started"; {number, matches, out, err}
    file     outcome: "exists", "absent", or the errno's name; {size, matches}

An http or tcp attempt that was due while too many were under way has the outcome "not_started": it failed, and it was
not sent.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Sample = Sequence[Any]
Metrics = dict[str, float | None]
Bound = Mapping[str, Any]
"""A tolerance as JSON: metric, op, value, text."""

NOT_STARTED = "not_started"
CONNECTED = "connected"
FEW, MANY = 3, 20
"""Least and most attempts of one try at recovery."""

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "<=": operator.le, ">=": operator.ge, "<": operator.lt, ">": operator.gt, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def quantile(values: Sequence[float], per_cent: int) -> float | None:
    """By nearest rank: the smallest value that at least `per_cent` % of all do not exceed. None of nothing.

    It is always a value that was measured (Hyndman and Fan's definition 1), never one between two.
    """
    if not values:
        return None
    rank = max(1, -(-len(values) * per_cent // 100))
    return sorted(values)[rank - 1]


def succeeded(kind: str, spec: Mapping[str, Any], sample: Sample) -> bool:
    """Whether one http or tcp attempt did what was wanted of it."""
    outcome = sample[2]
    if kind == "tcp":
        return bool(outcome == CONNECTED)
    if isinstance(outcome, bool) or not isinstance(outcome, int) or sample[1] is None:
        return False
    wanted = spec.get("status")
    return outcome in wanted if wanted else outcome < 400


def metrics(kind: str, spec: Mapping[str, Any], samples: Sequence[Sample]) -> Metrics:
    """Every metric that a probe of this kind has. What could not be measured is None."""
    if kind in ("http", "tcp"):
        return _attempts(kind, spec, samples)
    if not samples:
        shown = ("exit_code", "number", "seconds") if kind == "command" else ("exists", "size")
        return dict.fromkeys((*shown, "matches"))
    _, seconds, outcome, facts = samples[-1]
    if kind == "command":
        ended = isinstance(outcome, int)
        return {
            "exit_code": float(outcome) if ended else None,
            "number": _number(facts.get("number")) if ended else None,
            "matches": _number(facts.get("matches")) if ended else None,
            "seconds": seconds,
        }
    return {
        "exists": {"exists": 1.0, "absent": 0.0}.get(outcome),
        "size": _number(facts.get("size")),
        "matches": _number(facts.get("matches")),
    }


def _attempts(kind: str, spec: Mapping[str, Any], samples: Sequence[Sample]) -> Metrics:
    good = sum(succeeded(kind, spec, sample) for sample in samples)
    answered = [float(sample[1]) for sample in samples if sample[1] is not None]
    return {
        "success_rate": good / len(samples) if samples else None,
        "sent": float(sum(sample[2] != NOT_STARTED for sample in samples)),
        "p50": quantile(answered, 50),
        "p95": quantile(answered, 95),
        "p99": quantile(answered, 99),
        "max": max(answered, default=None),
    }


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, bool | int | float) and math.isfinite(value) else None


def checks(found: Mapping[str, float | None], bounds: Sequence[Bound]) -> list[dict[str, Any]]:
    """Each bound against its metric. A metric that could not be measured holds no bound."""
    result = []
    for bound in bounds:
        value = found.get(bound["metric"])
        holds = value is not None and _OPERATORS[bound["op"]](value, bound["value"])
        result.append({"metric": bound["metric"], "wanted": bound["text"], "measured": value, "holds": holds})
    return result


def met(found: Mapping[str, float | None], bounds: Sequence[Bound]) -> tuple[list[dict[str, Any]], str]:
    """The bounds that hold, and a phrase that says so: for conditions that must not become true."""
    holding = [check for check in checks(found, bounds) if check["holds"]]
    return holding, ", ".join(f"{c['metric']} is {c['measured']:g} ({c['wanted']})" for c in holding)


def holds(found: Mapping[str, float | None], bounds: Sequence[Bound]) -> bool:
    """All bounds, and there is at least one."""
    done = checks(found, bounds)
    return bool(done) and all(check["holds"] for check in done)


def measured(kind: str, phase: str, samples: Sequence[Sample], found: Metrics, bounds: Sequence[Bound]) -> bool:
    """Whether anything was learnt: something was sent, and before the fault a bounded metric has a value."""
    if not samples or (kind in ("http", "tcp") and not found["sent"]):
        return False
    return phase != "before" or any(found.get(bound["metric"]) is not None for bound in bounds)


def for_recovery(
    kind: str, spec: Mapping[str, Any], bounds: Sequence[Bound]
) -> tuple[Mapping[str, Any], Sequence[Bound], str]:
    """How one try at recovery measures: a steady rate becomes a few attempts one after another.

    So a recovery is seen within about a second instead of one whole measurement later. The third value says so; it is
    empty when nothing was changed. Bounds on `sent` are about the whole measurement and are left out.
    """
    kept = [bound for bound in bounds if bound["metric"] != "sent"]
    if kind not in ("http", "tcp") or not spec.get("rate") or not kept:
        return spec, bounds, ""
    count = min(MANY, max(FEW, math.ceil(spec["rate"])))
    note = f"each try is {count} attempts one after another, instead of {spec['rate']:g}/s for {spec['duration']:g} s"
    return {**spec, "rate": None, "duration": None, "count": count}, kept, note


def could_hold(
    kind: str, spec: Mapping[str, Any], samples: Sequence[Sample], planned: int, bounds: Sequence[Bound]
) -> bool:
    """Whether `success_rate` could still meet its bounds if all attempts to come succeeded."""
    lost = sum(not succeeded(kind, spec, sample) for sample in samples)
    return all(check["holds"] for check in checks(
        {"success_rate": (planned - lost) / planned},
        [bound for bound in bounds if bound["metric"] == "success_rate" and bound["op"] in (">=", ">", "==")],
    ))  # fmt: skip


def report(
    kind: str, spec: Mapping[str, Any], phase: str, bounds: Sequence[Bound], samples: Sequence[Sample], detail: str = ""
) -> dict[str, Any]:
    """The part of a `probe` or `recovered` event that says what was measured, for guest and host alike."""
    found = metrics(kind, spec, samples)
    return {
        "samples": samples,
        "metrics": found,
        "checks": checks(found, bounds),
        "holds": holds(found, bounds),
        "measured": measured(kind, phase, samples, found, bounds),
        "detail": detail,
    }
