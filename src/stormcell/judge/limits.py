"""What a run cannot know, in sentences for the report."""

from __future__ import annotations

from collections.abc import Iterator

from stormcell.judge.case import Case
from stormcell.judge.leftovers import others
from stormcell.judge.probes import Measurement
from stormcell.judge.statistics import smallest_count
from stormcell.judge.times import longer
from stormcell.judge.wording import percent, seconds
from stormcell.spec.plan import PlannedProbe, RecoverStep

_QUANTILES = {"p50": 50, "p95": 95, "p99": 99}


def sentences(case: Case) -> tuple[str, ...]:
    """Where the probes stood, how many samples there are, how fine they look, what was not exercised."""
    sources = (_vantage, _duration, longer, others, _samples, _resolution, _recovery, _loads, _faults, _sealed, _once)
    return tuple(dict.fromkeys(sentence for source in sources for sentence in source(case)))


def _vantage(case: Case) -> Iterator[str]:
    places = {probe.vantage for probe in case.plan.probes.values()}
    if places == {"guest"}:
        yield "Every probe stood inside the guest: what a client on another machine sees was not measured."
    if "guest" in places:
        yield "Probes in the guest share its CPUs with the system under test and with the fault."
    for name, probe in case.plan.probes.items():
        if probe.vantage == "host":
            yield (f"Probe '{name}' looked from the host through user-mode networking, which its latencies include.")
            if probe.kind == "tcp":
                yield (
                    f"Probe '{name}' is answered by the forwarded port itself, before the guest is asked: a handshake "
                    "from the host does not show that anything listens in the guest."
                )


def _duration(case: Case) -> Iterator[str]:
    applied = [event for event in case.of("applied", "guest") if event.get("ok")]
    after = [event for event in case.of("reading", "guest") if event.get("label") == "after"]
    if applied and after:
        held = float(after[-1]["t"]) - float(applied[0]["t"])
        yield f"The fault lasted {seconds(max(0.0, held))}: what takes longer to show was not seen."


def _samples(case: Case) -> Iterator[str]:
    once = dict.fromkeys(m.step.probe for m in case.phase("under", "recovery") if m.planned.kind in ("command", "file"))
    if once:
        yield f"Measured once in each phase, so that other moments were not seen: {', '.join(once)}."
    for m in case.phase("under"):
        if m.planned.kind in ("http", "tcp"):
            yield from _few(m)


def _few(m: Measurement) -> Iterator[str]:
    bounded = {bound.metric: bound.value for bound in m.step.bounds}
    answered = sum(sample[1] is not None for sample in m.samples)
    for metric, per_cent in _QUANTILES.items():
        if metric in bounded and 0 < answered < smallest_count(per_cent):
            yield (
                f"{metric} of '{m.step.probe}' under the fault rests on {answered} answers: "
                f"of fewer than {smallest_count(per_cent)} it is the largest one."
            )
    if m.interval and m.result.holds and m.interval[0] < bounded.get("success_rate", 0):
        yield (
            f"{m.result.samples} attempts of '{m.step.probe}' under the fault: a true success rate down to "
            f"{percent(m.interval[0])} would look the same (95 % interval)."
        )


def _resolution(case: Case) -> Iterator[str]:
    for name, probe in case.plan.probes.items():
        if (rate := _rate(probe)) is not None:
            gap = seconds(1 / rate)
            yield f"Probe '{name}' sends one attempt in {gap}: a shorter outage may fall between two of them."


def _rate(probe: PlannedProbe) -> float | None:
    rate = probe.spec.get("rate")
    return float(rate) if isinstance(rate, int | float) and rate > 0 else None


def _recovery(case: Case) -> Iterator[str]:
    """Probes take turns, so a later one may have held before it was asked."""
    seen = [m for m in case.phase("recovery") if isinstance(m.step, RecoverStep) and m.result.holds]
    if seen:
        steps = [m.step for m in seen if isinstance(m.step, RecoverStep)]
        when = ", ".join(f"{m.step.probe} {seconds(m.result.seconds or 0)}" for m in seen)
        yield (
            f"Recovery was looked for every {seconds(steps[0].every_s)}, one probe after another, and may have come "
            f"earlier than it was seen (after the undo: {when})."
        )


def _loads(case: Case) -> Iterator[str]:
    for event in case.of("load", "guest"):
        if event.get("state") == "exited":
            how = f"ended by itself with exit code {event.get('exit')}"
            yield f"Load '{event.get('load')}' {how}: later phases had less load."


def _faults(case: Case) -> Iterator[str]:
    for fault in case.planned_faults:
        yield from case.plan.faults[fault].cannot_know


def _sealed(case: Case) -> Iterator[str]:
    if not case.plan.sealed:
        return
    yield (
        "Times are guest time: each instruction takes 2 ns and waiting takes what was waited for. They compare work "
        "and timeouts with each other, and say nothing about the speed of this or any other machine."
    )
    yield (
        "Its disk is memory and its cache always hits: what slow storage, cold caches or a busy memory bus would do "
        "was not measured."
    )
    yield (
        "It had one processor, no network card and nothing outside: what needs two processors at once, a real network "
        "or another machine was not exercised."
    )


def _once(case: Case) -> Iterator[str]:
    if case.plan.sealed:
        yield (
            f"Seed {case.plan.seed} is one schedule of many: to repeat it shows the same again, and another seed may "
            "come out otherwise."
        )
        return
    yield f"This is one run with seed {case.plan.seed}: chance effects need repeats."
