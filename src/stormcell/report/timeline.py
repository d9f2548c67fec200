"""From events to a timeline. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stormcell.judge.case import Case, Event
from stormcell.judge.probes import Measurement
from stormcell.judge.wording import seconds as duration
from stormcell.report.clock import Clock
from stormcell.report.evidence import BoundLine, Dot, FaultLane, Mark, ProbeLane, Span, Timeline
from stormcell.report.measured import LATENCIES, good
from stormcell.report.words import LINE, NAME, number, words
from stormcell.spec.plan import PlannedFault

MOST_DOTS = 240
"""Drawn of one probe in one phase."""
MOST_SPANS = 400
"""Drawn of one fault."""
SETUP_SHARE = 0.2
"""A setup that takes more of the run than this is cut off."""

_LOST = {"lost": "lost", "interrupted": "lost", "malformed": "lost"}


def timeline(case: Case, clock: Clock) -> Timeline | None:
    """None of a run that never began."""
    phases = _phases(case, clock)
    if not phases:
        return None
    end = max(clock.end, phases[-1].end)
    begin, cut = phases[0].begin, 0.0
    if phases[0].name == "setup" and len(phases) > 1:
        setup = phases[0].end - phases[0].begin
        if setup > SETUP_SHARE * (end - begin):
            phases, begin, cut = phases[1:], phases[1].begin, setup
    last = max(span.end for span in phases)
    return Timeline(
        begin=begin,
        end=max(last, begin + 1e-3),
        cut=cut,
        phases=tuple(phases),
        faults=tuple(_fault_lanes(case, clock, last)),
        probes=tuple(_probe_lanes(case, clock)),
        marks=(*_marks(case, clock), *([] if case.ended else [Mark("lost", last, "the record ends here")])),
    )


def _phases(case: Case, clock: Clock) -> list[Span]:
    found: list[Span] = []
    for event in case.events:
        at = clock.of(event)
        if at is None:
            continue
        if found:
            found[-1] = Span(found[-1].name, found[-1].begin, max(at, found[-1].end))
        phase = event.get("phase")
        if event["event"] == "step" and isinstance(phase, str) and (not found or found[-1].name != phase):
            found.append(Span(words(phase, 20), at, at))
        if event["event"] == "end":
            break_off = [span for span in found if span.end > span.begin]
            found = break_off or found
    return [span for span in found if span.end > span.begin] or found


def _fault_lanes(case: Case, clock: Clock, last: float) -> Iterator[FaultLane]:
    for fault, planned in case.plan.faults.items():
        spans = [*_spans(case, clock, fault, planned, last)][:MOST_SPANS]
        yield FaultLane(words(fault, NAME), planned.kind, tuple(spans))


def _spans(case: Case, clock: Clock, fault: str, planned: PlannedFault, last: float) -> Iterator[Span]:
    """From each act to its undo, or to the change into the next level."""
    since: float | None = None
    level = 0
    for event in case.events:
        if event.get("fault") != fault:
            continue
        kind = event["event"]
        at = clock.of(event, event.get({"applied": "since", "undone": "until"}.get(kind, "at"), event.get("at")))
        acts = (kind == "applied" and bool(event.get("ok"))) or (kind == "machine" and event.get("what") == "act")
        if at is None or not (acts or kind == "undone"):
            continue
        if since is not None:
            yield _span(planned, level, since, at)
        since = at if acts else None
        level = event["level"] if isinstance(event.get("level"), int) else 0
    if since is not None:
        booted = [clock.of(e) for e in case.of("machine", "host") if e.get("what") == "booted"]
        yield _span(planned, level, since, next((at for at in booted if at is not None and at > since), last))


def _span(planned: PlannedFault, level: int, begin: float, end: float) -> Span:
    levels = planned.levels
    if not 0 <= level < len(levels):
        return Span("", begin, max(begin, end))
    changing = [key for key, value in levels[0].params.items() if any(lv.params.get(key) != value for lv in levels)]
    name = ", ".join(str(levels[level].params.get(key)) for key in changing)
    return Span(words(name, 40), begin, max(begin, end), (level + 1) / len(levels))


def _probe_lanes(case: Case, clock: Clock) -> Iterator[ProbeLane]:
    events = {str(event.get("step")): event for event in case.events if event["event"] in ("probe", "recovered")}
    for name, planned in case.plan.probes.items():
        dots: list[Dot] = []
        bounds: list[BoundLine] = []
        tries: list[Span] = []
        mine = [m for m in case.measurements if m.step.probe == name]
        for m in mine:
            event = events[m.step.id]
            times = _times(event, clock)
            if times is None:
                continue
            began, ended = times
            dots += _dots(m, began)
            bounds += [
                BoundLine(began, ended, bound.value, words(f"{bound.metric} {bound.text}", NAME))
                for bound in m.step.bounds
                if bound.metric in LATENCIES and bound.op in ("<=", "<")
            ]
            tries += _tries(m, event, began)
        samples = sum(len(m.samples) for m in mine)
        yield ProbeLane(
            words(name, NAME), planned.kind, planned.seen_from, samples, tuple(dots), tuple(bounds), tuple(tries)
        )


def _times(event: Event, clock: Clock) -> tuple[float, float] | None:
    """When a measurement (of a recovery: its last try) began and ended."""
    end = clock.of(event)
    if end is None:
        return None
    took = number(event.get("took_s"))
    began_s, ended_s = number(event.get("began_s")), number(event.get("seconds"))
    if began_s is not None and ended_s is not None:
        took = ended_s - began_s
    if took is not None:
        return max(0.0, end - max(0.0, took)), end
    begin = clock.of(event, event.get("began"))
    return (min(begin, end), end) if begin is not None else None


def _dots(m: Measurement, began: float) -> list[Dot]:
    indices = _chosen(m)
    found = []
    for index in indices:
        sample: Any = m.samples[index]
        facts = sample[3] if len(sample) > 3 and isinstance(sample[3], Mapping) else {}
        said = f"{sample[2]}" if number(facts.get("number")) is None else f"{sample[2]}, number {facts['number']:g}"
        found.append(Dot(began + float(sample[0]), sample[1], good(m, sample), words(said, 60)))
    return found


def _chosen(m: Measurement) -> list[int]:
    """All samples of few; of many evenly spaced ones, and of the failed half of the room."""
    total = len(m.samples)
    if total <= MOST_DOTS:
        return list(range(total))
    failed = [index for index in range(total) if not good(m, m.samples[index])]
    return sorted({*_spaced(failed, MOST_DOTS // 2), *_spaced(range(total), MOST_DOTS // 2)})


def _spaced(items: Any, most: int) -> list[int]:
    return list(items) if len(items) <= most else [items[len(items) * place // most] for place in range(most)]


def _tries(m: Measurement, event: Event, began: float) -> Iterator[Span]:
    attempts, began_s = event.get("attempts"), number(event.get("began_s"))
    if isinstance(attempts, int) and attempts > 1 and began_s is not None:
        earlier = "1 earlier try" if attempts == 2 else f"{attempts - 1:,} earlier tries"
        yield Span(f"{earlier} did not hold", max(0.0, began - began_s), began)


def _marks(case: Case, clock: Clock) -> Iterator[Mark]:
    for event in case.events:
        at, kind = clock.of(event, event.get("at")), event["event"]
        if at is None:
            continue
        text = words(event.get("text") or event.get("code") or "", LINE)
        if kind == "abort":
            yield Mark("abort", at, text)
        elif kind == "stop" and event.get("code") != "aborted":
            yield Mark("stop", at, text)
        elif kind in _LOST:
            yield Mark("lost", at, text)
        elif kind == "recovered_by":
            yield Mark("stop", at, "the watchdog undid the faults")
        elif kind == "machine" and event.get("what") in ("act", "booted", "not_booted"):
            yield Mark(*_machine(event, at))


def _machine(event: Event, at: float) -> tuple[str, float, str]:
    if event["what"] == "act":
        return "crash", at, f"the machine went down ({words(event.get('mode'), 20)})"
    if event["what"] == "booted":
        took = number(event.get("seconds"))
        return "booted", at, "booted again" + (f" after {duration(took)}" if took is not None else "")
    return "lost", at, "the machine did not boot again"
