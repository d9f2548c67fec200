"""Event logs as a run writes them, step by step of a plan, with chosen measurements."""

from typing import Any

from stormcell.guest import measure
from stormcell.spec.fault import Command, Reading
from stormcell.spec.plan import (
    ApplyStep,
    InventoryStep,
    LoadStep,
    MachineStep,
    NeedsStep,
    Plan,
    PlannedFault,
    PlannedProbe,
    ProbeStep,
    RecoverStep,
    RunStep,
    Step,
    UndoStep,
    UnloadStep,
)
from stormcell.spec.probe import tolerances
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import Prediction, Verdict

HTTP = {"url": "http://127.0.0.1/", "rate": 10.0, "duration": 2.0, "count": None, "timeout": 1.0, "status": []}
COMMAND = {"run": ["count-rows"], "number": "([0-9]+)", "match": None, "timeout": 5.0}
WEB = tolerances("http", {"success_rate": ">= 90%", "p95": "<= 500ms"})
ROWS = tolerances("command", {"number": ">= 10"})
SURVIVES = Prediction(verdict=Verdict.SURVIVED)


def answers(count: int = 20, latency: float = 0.02, failed: int = 0, failure: str = "timeout") -> list[list[Any]]:
    good = [[number / 10, latency, 200] for number in range(count - failed)]
    return good + [[2.0 + number / 10, None, failure] for number in range(failed)]


def rows(number: float | None = 12.0, outcome: int | str = 0) -> list[list[Any]]:
    return [[0.0, 0.1, outcome, {"number": number, "matches": None, "out": str(number), "err": ""}]]


def guest_plan(*, prediction: Prediction | None = None, vantage: Any = "guest", web: Any = WEB) -> Plan:
    steps: list[Step] = [
        NeedsStep(id="needs", phase="setup", fault="fault"),
        RunStep(id="setup.1", phase="setup", command=Command(argv=("true",))),
        LoadStep(id="load.writer", phase="before", load="writer", command=Command(argv=("sleep", "9"))),
        ProbeStep(id="before.web", phase="before", on=vantage, probe="web", bounds=web, gate=True),
        ProbeStep(id="before.rows", phase="before", probe="rows", bounds=ROWS, gate=True),
        InventoryStep(id="inventory.before", phase="before", label="before"),
        ApplyStep(id="apply", phase="fault", fault="fault"),
        ProbeStep(id="under.web", phase="under", on=vantage, probe="web", bounds=web),
        ProbeStep(id="under.rows", phase="under", probe="rows", bounds=ROWS),
        UndoStep(id="undo", phase="undo", fault="fault"),
        InventoryStep(id="inventory.undone", phase="undo", label="undone"),
        UnloadStep(id="unload", phase="undo", load="writer"),
        *_recovery(vantage, web),
    ]
    return _plan(steps, "net.delay", "packets delayed", prediction, vantage)


def crash_plan(*, prediction: Prediction | None = None, boot: bool = True) -> Plan:
    steps: list[Step] = [
        ProbeStep(id="before.web", phase="before", probe="web", bounds=WEB, gate=True),
        ProbeStep(id="before.rows", phase="before", probe="rows", bounds=ROWS, gate=True),
        MachineStep(id="act", phase="fault", fault="fault", mode="panic", boot=boot),
        *(_recovery("guest", WEB) if boot else ()),
    ]
    return _plan(steps, "machine.crash", "machines crashed", prediction, "guest")


def _recovery(vantage: Any, web: Any) -> list[Step]:
    return [
        RecoverStep(id="recovery.web", phase="recovery", on=vantage, probe="web", bounds=web, within_s=10, every_s=0.5),
        RecoverStep(id="recovery.rows", phase="recovery", probe="rows", bounds=ROWS, within_s=10, every_s=0.5),
    ]


def _plan(steps: list[Step], kind: str, counts: str, prediction: Prediction | None, vantage: Any) -> Plan:
    return Plan(
        experiment="story",
        question="Does it hold?",
        template="base",
        seed=7,
        deadline_s=60,
        prediction=prediction,
        probes={
            "web": PlannedProbe(kind="http", vantage=vantage, spec=HTTP),
            "rows": PlannedProbe(kind="command", vantage="guest", spec=COMMAND),
        },
        faults={"fault": PlannedFault(kind=kind, params={}, counts=counts, cannot_know=("It rained.",))},
        steps=tuple(steps),
    )


def receipt(plan: Plan, **changes: Any) -> dict[str, Receipt]:
    fault = plan.faults["fault"]
    on_machine = fault.kind.startswith("machine.")
    labels = ("before", "during", "after") if on_machine else ("before", "during", "after", "undone")
    fields: dict[str, Any] = {
        "fault": "fault",
        "kind": fault.kind,
        "params": {},
        "counts": fault.counts,
        "apply_ok": None if on_machine else True,
        "undo_ok": None if on_machine else True,
        "readings": {label: Reading() for label in labels},
        "in_force": True,
        "acted": 312,
        "clean": None if on_machine else True,
    }
    return {"fault": Receipt.model_validate(fields | changes)}


class Story:
    """Writes events as runner and host do. `samples` replaces what a step measures."""

    def __init__(self, plan: Plan, **samples: list[list[Any]]) -> None:
        self.plan = plan
        self.samples = {name.replace("__", "."): value for name, value in samples.items()}
        self.events: list[dict[str, Any]] = []
        self.number = 0
        self.now = 0.0

    def guest(self, event: str, **fields: Any) -> None:
        self.now = round(self.now + 0.1, 9)
        self.events.append({"on": "guest", "n": self.number, "t": self.now, "event": event, **fields})
        self.number += 1

    def host(self, event: str, **fields: Any) -> None:
        self.events.append({"on": "host", "event": event, **fields})

    def begin(self) -> None:
        self.number, self.now = 0, 0.0
        self.guest("begin", boot_id=f"boot-{len(self.events)}", generation=None, wall=0.0, pid=1)

    def whole(self) -> "Story":
        self.host("created", sandbox="sc-1")
        self.begin()
        for step in self.plan.steps:
            self.perform(step)
        self.guest("end")
        return self

    def until(self, step_id: str) -> "Story":
        """Everything before that step; the story goes on by hand."""
        self.begin()
        for step in self.plan.steps:
            if step.id == step_id:
                return self
            self.perform(step)
        raise AssertionError(step_id)

    def stop(self, code: str, text: str = "because") -> "Story":
        self.guest("stop", code=code, text=text)
        self.guest("end")
        return self

    def perform(self, step: Step) -> None:
        if isinstance(step, MachineStep):
            self.crash(step)
            return
        self.guest("step", step=step.id, phase=step.phase)
        if isinstance(step, ProbeStep | RecoverStep):
            self.measure(step)
        elif isinstance(step, ApplyStep):
            self.guest("receipt", step=step.id, phase=step.phase, fault=step.fault, undo=[])
            self.guest("applied", step=step.id, phase=step.phase, fault=step.fault, ok=True, outputs=[])
            self.guest("reading", step=step.id, phase=step.phase, fault=step.fault, label="during", reading={})
        elif isinstance(step, InventoryStep):
            self.guest("inventory", step=step.id, phase=step.phase, label=step.label, differences=[])
        elif isinstance(step, UndoStep):
            self.guest("reading", step=step.id, phase=step.phase, fault=step.fault, label="after", reading={})
            self.guest("undone", step=step.id, phase=step.phase, fault=step.fault, ok=True, outputs=[])

    def crash(self, step: MachineStep) -> None:
        self.guest("end")
        self.host("machine", what="act", step=step.id, fault=step.fault)
        self.host("machine", what="exit", step=step.id)
        if step.boot:
            self.host("machine", what="booted", step=step.id, seconds=9.0)
            self.begin()

    def measure(self, step: ProbeStep | RecoverStep) -> None:
        planned = self.plan.probes[step.probe]
        samples = self.samples.get(step.id, answers() if planned.kind == "http" else rows())
        spec: Any = planned.spec
        bounds: Any = [bound.model_dump() for bound in step.bounds]
        times: dict[str, Any] = {}
        if isinstance(step, RecoverStep):
            spec, bounds, _ = measure.for_recovery(planned.kind, spec, bounds)
            times = {"attempts": 2, "began_s": 1.0, "seconds": 1.2}
        fields = measure.report(planned.kind, spec, step.phase, bounds, samples)
        event = {"step": step.id, "phase": step.phase, "probe": step.probe, "vantage": step.on, **times, **fields}
        kind = "recovered" if isinstance(step, RecoverStep) else "probe"
        if step.on == "host":
            self.guest("await", step=step.id, phase=step.phase)
        (self.host if step.on == "host" else self.guest)(kind, **event)

    def find(self, kind: str, step: str) -> dict[str, Any]:
        return next(event for event in self.events if event["event"] == kind and event.get("step") == step)
