"""All that one run left behind, sorted for the rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stormcell.judge.events import MALFORMED
from stormcell.judge.probes import Malformed, Measurement, measurement
from stormcell.spec.plan import ApplyStep, ForkStep, MachineStep, NoiseStep, Plan, ProbeStep, RecoverStep, UndoStep
from stormcell.spec.receipt import Receipt

ABORTED = "aborted"
"""The code of a run that an abort condition ended."""
Event = Mapping[str, Any]


@dataclass
class Case:
    """`segments` holds the guest's events of each runner (a crash and a cold boot make two)."""

    plan: Plan
    events: Sequence[Event]
    receipts: Mapping[str, Receipt]
    segments: list[list[Event]] = field(default_factory=list)
    malformed: list[str] = field(default_factory=list)
    measurements: list[Measurement] = field(default_factory=list)

    def of(self, kind: str, on: str) -> list[Event]:
        """Events of one kind, from the guest or from the host."""
        return [event for event in self.events if event["event"] == kind and _origin(event) == on]

    @property
    def stops(self) -> list[Event]:
        """Why a runner ended early."""
        return self.of("stop", "guest")

    def phase(self, *names: str) -> list[Measurement]:
        """The measurements of some phases."""
        return [m for m in self.measurements if m.step.phase in names]

    @property
    def planned_faults(self) -> dict[str, ApplyStep | MachineStep]:
        """Faults that the plan's steps begin."""
        return {step.fault: step for step in self.plan.steps if isinstance(step, ApplyStep | MachineStep)}

    @property
    def noisy(self) -> bool:
        """The scheduler is disturbed, which is something to survive, too."""
        return any(isinstance(step, NoiseStep) for step in self.plan.steps)

    @property
    def begun_faults(self) -> list[str]:
        """Those that were begun: all of them in a run that was not stopped, else those with a receipt written."""
        if not self.stops:
            return list(self.planned_faults)
        written = {event.get("fault") for event in self.events if event["event"] == "receipt"}
        return [fault for fault in self.planned_faults if fault in written]

    @property
    def undone_faults(self) -> list[str]:
        """Those that the plan undoes."""
        return [step.fault for step in self.plan.steps if isinstance(step, UndoStep)]

    @property
    def begun(self) -> list[tuple[str, Receipt]]:
        """The begun faults that have a receipt."""
        return [(fault, self.receipts[fault]) for fault in self.begun_faults if fault in self.receipts]

    @property
    def receipt_written(self) -> bool:
        """Some fault was begun."""
        return any(event["event"] == "receipt" for event in self.events)

    def called(self, fault: str) -> str:
        """A fault in a sentence: one that was given a name by that, too."""
        kind = self.plan.faults[fault].kind if fault in self.plan.faults else self.receipts[fault].kind
        return kind if fault == "fault" else f"'{fault}' ({kind})"

    def cut_short(self, fault: str) -> bool:
        """An abort condition was met in the middle of its act, or its change: nothing was read after that."""
        if not self.stops or any(event.get("code") != ABORTED for event in self.stops):
            return False
        mine = [event for event in self.events if event.get("fault") == fault]
        acts = [event for event in mine if event["event"] == "receipt"]
        looks = [event for event in mine if event["event"] == "reading" and event.get("label") == "during"]
        return len(acts) > len(looks)

    def machine(self, step: MachineStep) -> dict[str, str]:
        """What the host said about its act on the machine: act, exit, boot, booted or not_booted, each with a text."""
        mine = [event for event in self.of("machine", "host") if event.get("step") == step.id]
        return {str(event.get("what")): str(event.get("text") or "") for event in mine}

    @property
    def ended(self) -> bool:
        """Every runner said `end`, or was left waiting for the machine step, or the fork, that took it away."""
        return bool(self.segments) and all(_closed(segment, self.plan) for segment in self.segments)

    @property
    def guest_seconds(self) -> float | None:
        """Guest time of all runners together."""
        return round(sum(float(segment[-1]["t"]) for segment in self.segments), 9) if self.segments else None


def build(plan: Plan, events: Sequence[Event], receipts: Mapping[str, Receipt]) -> Case:
    """Sort the events; what no runner would write is collected in `malformed`."""
    case = Case(plan, [event for event in events if _is_event(event)], receipts)
    if len(case.events) != len(events):
        case.malformed.append(f"{len(events) - len(case.events)} entries are no events")
    case.malformed += [f"line {e.get('line')}: {e.get('text')}" for e in case.of(MALFORMED, "host")]
    case.events = [event for event in case.events if _origin(event) == "host" or _into_segment(case, event)]
    steps = {step.id: step for step in plan.steps if isinstance(step, ProbeStep | RecoverStep)}
    seen: set[str] = set()
    for event in case.events:
        if event["event"] not in ("probe", "recovered"):
            continue
        step = steps.get(str(event.get("step")))
        wanted = {"probe": ProbeStep, "recovered": RecoverStep}[event["event"]]
        if step is None or not isinstance(step, wanted) or step.id in seen:
            again = " a second time" if step is not None and step.id in seen else ""
            case.malformed.append(f"the plan has no such measurement{again}: {event.get('step')}")
            continue
        seen.add(step.id)
        try:
            case.measurements.append(measurement(plan, step, event))
        except Malformed as error:
            case.malformed.append(f"the measurement of step '{step.id}': {error}")
    return case


def _is_event(event: object) -> bool:
    return isinstance(event, Mapping) and isinstance(event.get("event"), str)


def _origin(event: Event) -> str:
    return "host" if event.get("on") == "host" else "guest"


def _into_segment(case: Case, event: Event) -> bool:
    """A runner counts its events from 0 without a gap. False for an event that cannot be used."""
    number, moment = event.get("n"), event.get("t")
    if isinstance(moment, bool) or not isinstance(moment, int | float) or not math.isfinite(moment):
        case.malformed.append(f"a guest event '{event['event']}' without its time")
        return False
    if number == 0 or not case.segments:
        case.segments.append([])
    segment = case.segments[-1]
    if number != len(segment):
        case.malformed.append(f"guest event {len(segment)} is missing (after it came {number})")
    segment.append(event)
    return True


def _closed(segment: Sequence[Event], plan: Plan) -> bool:
    last = segment[-1]
    if last["event"] == "await":
        return any(isinstance(step, MachineStep | ForkStep) and step.id == last.get("step") for step in plan.steps)
    return bool(last["event"] == "end")
