"""Times of an experiment that contradict each other, found before anything starts. Pure.

Counted so that what just fits is refused: acts and undos take time as well (`TURN_S`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stormcell.engine.timeline import ends_after
from stormcell.spec.experiment import Experiment
from stormcell.spec.probe import CommandProbe, FileProbe, HttpProbe, Probe, TcpProbe
from stormcell.spec.schedule import TURN_S, Disturbance, Schedule
from stormcell.spec.units import spoken


@dataclass(frozen=True)
class Contradiction:
    """Where in the experiment, and the parts of an error."""

    at: tuple[str, ...]
    what: str
    rule: str
    remedy: str


def contradictions(experiment: Experiment, disturbances: Sequence[Disturbance]) -> Iterator[Contradiction]:
    """All of them, the most telling first."""
    yield from _limits(experiment)
    for item in disturbances:
        if item.schedule is not None:
            yield from _schedule(experiment, item, item.schedule)
    yield from _phase(experiment, disturbances)
    yield from _looks(experiment)
    yield from _moment(experiment)


def longest(schedule: Schedule) -> float:
    """Seconds until it is over, with the time that acts and undos take."""
    return ends_after(schedule) + TURN_S * schedule.turns


def _limits(experiment: Experiment) -> Iterator[Contradiction]:
    for name, value in (("deadline", experiment.deadline), ("ttl", experiment.ttl)):
        if value == 0:
            yield Contradiction((name,), f"{name}: 0s", f"{name} is more than 0s", f"write for example {name}: 2m")


def _schedule(experiment: Experiment, item: Disturbance, schedule: Schedule) -> Iterator[Contradiction]:
    at = ("fault", "schedule") if experiment.faults is None else ("faults", item.id, "schedule")
    name = "the schedule" if experiment.faults is None else f"the schedule of '{item.id}'"
    end = longest(schedule)
    for limit, seconds, rule in _ends(experiment):
        if end >= seconds:
            yield Contradiction(
                at,
                f"{name} is over after {spoken(end)} (acts and undos counted), and {limit} is {spoken(seconds)}",
                rule,
                f"shorten the schedule, or write {limit}: {spoken(_more(end))}",
            )
    over = ends_after(schedule)
    if over > schedule.at and over <= experiment.settle:
        yield Contradiction(
            at,
            f"{name} is over after {spoken(over)}, before the first probe looks (settle: {spoken(experiment.settle)})",
            "some probe must look while the fault is in force",
            "make the schedule longer, or settle shorter",
        )
    most = experiment.settle + sum(_most(probe) for probe in experiment.steady_state)
    if schedule.at >= most:
        yield Contradiction(
            at,
            f"{name} begins after {spoken(schedule.at)}, and every probe under the fault has ended by {spoken(most)}",
            "some probe must look while the fault is in force",
            "let it begin earlier, or a probe measure for longer (`rate` and `for`)",
        )


def _phase(experiment: Experiment, disturbances: Sequence[Disturbance]) -> Iterator[Contradiction]:
    """`hold`, `settle` and the probes themselves against ttl and deadline."""
    measured = sum(_least(probe) for probe in experiment.steady_state)
    parts = {
        "hold": experiment.hold,
        "settle": experiment.settle + measured,
        "faults": max((longest(item.schedule) for item in disturbances if item.schedule), default=0.0),
    }
    field = max(parts, key=lambda name: parts[name])
    for limit, seconds, rule in _ends(experiment):
        before = measured if limit == "deadline" else 0.0
        if parts[field] + before >= seconds:
            what = {
                "hold": f"the fault is held for {spoken(experiment.hold)}",
                "settle": f"settling and measuring take {spoken(parts['settle'])}",
                "faults": f"the schedules take {spoken(parts['faults'])}",
            }[field]
            also = f" after {spoken(before)} of measuring" if before else ""
            yield Contradiction(
                (field,) if field != "faults" and getattr(experiment, field) else (limit,),
                f"{what}{also}, and {limit} is {spoken(seconds)}",
                rule,
                f"shorten it, or write {limit}: {spoken(_more(parts[field] + before))}",
            )


def _looks(experiment: Experiment) -> Iterator[Contradiction]:
    recovery = experiment.recovery
    if "every" in recovery.model_fields_set and recovery.every > recovery.within:
        yield Contradiction(
            ("recovery",),
            f"recovery is looked for every {spoken(recovery.every)}, and must come within {spoken(recovery.within)}",
            "'every' is not longer than 'within'",
            "write for example recovery: {within: 30s, every: 500ms}",
        )
    for number, abort in enumerate(experiment.abort):
        if abort.every >= experiment.deadline:
            yield Contradiction(
                ("abort", str(number)),
                f"it is looked at every {spoken(abort.every)}, and deadline is {spoken(experiment.deadline)}",
                "a condition is looked at more than once",
                "write for example every: 1s",
            )


def _moment(experiment: Experiment) -> Iterator[Contradiction]:
    if (moment := experiment.moment) is None:
        return
    name, seconds = ("after", moment.after) if moment.after is not None else ("within", moment.within)
    if seconds >= experiment.deadline:
        yield Contradiction(
            ("moment", name),
            f"the moment may come after {spoken(seconds)}, and deadline is {spoken(experiment.deadline)}",
            "the drive to the moment ends by the deadline, and so does each branch",
            f"write deadline: {spoken(_more(seconds))}",
        )


def _ends(experiment: Experiment) -> Iterator[tuple[str, float, str]]:
    if experiment.ttl is not None:
        yield "ttl", experiment.ttl, "ttl after the first act the watchdog undoes every fault, and the run is void"
    yield "deadline", experiment.deadline, "a run that has not ended by its deadline is unknown"


def _least(probe: Probe) -> float:
    """Seconds that it measures, at least."""
    how = probe.measurement
    return how.duration or 0.0 if isinstance(how, HttpProbe | TcpProbe) else 0.0


def _most(probe: Probe) -> float:
    match probe.measurement:
        case HttpProbe() | TcpProbe() as how:
            return (how.duration + how.timeout) if how.duration else (how.count or 1) * how.timeout
        case CommandProbe() as how:
            return how.timeout
        case FileProbe():
            return TURN_S


def _more(seconds: float) -> float:
    """A round limit with room for the rest of the run."""
    return float(60 * (int(seconds * 1.5 // 60) + 1))
