"""Experiment in, plan out: pure. What a dry run prints is what happens."""

from __future__ import annotations

from typing import Any, Literal

from stormcell.spec.experiment import Experiment, Load, Setup
from stormcell.spec.fault import Command, Fault
from stormcell.spec.plan import (
    ApplyStep,
    LoadStep,
    MachineStep,
    NeedsStep,
    Phase,
    Plan,
    PlannedFault,
    PlannedProbe,
    ProbeStep,
    RecoverStep,
    RunStep,
    Step,
    UndoStep,
    UnloadStep,
    WaitStep,
)
from stormcell.spec.probe import Probe, Run

FAULT = "fault"
"""The id of an experiment's fault in its plan; receipts are filed under it."""


def compile_plan(experiment: Experiment, fault: Fault, *, template_digest: str = "", seed: int = 0) -> Plan:
    """The timed steps of one run, in order."""
    crash = fault.on_machine and not fault.plan().apply
    middle = _on_machine(experiment, fault) if crash else _under(experiment, "host" if fault.on_machine else "guest")
    return Plan(
        experiment=experiment.name,
        question=experiment.question,
        template=experiment.template,
        template_digest=template_digest,
        seed=seed,
        deadline_s=experiment.deadline,
        prediction=experiment.prediction,
        open_ports=experiment.open_ports,
        raw_state=experiment.raw_state,
        probes={probe.name: _planned_probe(probe) for probe in experiment.steady_state},
        faults={FAULT: planned_fault(fault)},
        steps=(*_first(experiment), *middle),
    )


def _first(experiment: Experiment) -> list[Step]:
    steps: list[Step] = [NeedsStep(id="needs.fault", phase="setup", fault=FAULT)]
    for number, setup in enumerate(experiment.setup, 1):
        steps.append(RunStep(id=f"setup.{number}", phase="setup", command=_command(setup)))
    for load in experiment.load:
        steps.append(LoadStep(id=f"load.{load.name}", phase="before", load=load.name, command=_command(load)))
    steps += _probes(experiment, "before")
    return steps


def _under(experiment: Experiment, on: Literal["guest", "host"]) -> list[Step]:
    steps: list[Step] = [ApplyStep(id="apply.fault", phase="fault", on=on, fault=FAULT)]
    if experiment.settle:
        steps.append(WaitStep(id="settle", phase="under", seconds=experiment.settle))
    steps += _probes(experiment, "under")
    if experiment.hold:
        steps.append(WaitStep(id="hold", phase="under", seconds=experiment.hold, since_act=True))
    steps.append(UndoStep(id="undo.fault", phase="undo", on=on, fault=FAULT))
    steps += _unload(experiment, "undo")
    steps += _recovery(experiment)
    steps += _unload(experiment, "end")
    return steps


def _on_machine(experiment: Experiment, fault: Fault) -> list[Step]:
    """A crash takes the load and the runner with it; what is left to ask is whether the next boot recovers."""
    params = fault.params()
    act = MachineStep(
        id="act.fault",
        phase="fault",
        fault=FAULT,
        mode=params["mode"],
        boot=bool(params["boot"]),
        boot_within_s=experiment.cold_boot_within,
    )
    return [act, *_recovery(experiment)] if act.boot else [act]


def _probes(experiment: Experiment, phase: Literal["before", "under"]) -> list[Step]:
    return [
        ProbeStep(
            id=f"{phase}.{probe.name}",
            phase=phase,
            on=probe.vantage,
            probe=probe.name,
            bounds=probe.bounds(phase),
            gate=phase == "before",
        )
        for probe in experiment.steady_state
    ]


def _recovery(experiment: Experiment) -> list[Step]:
    return [
        RecoverStep(
            id=f"recovery.{probe.name}",
            phase="recovery",
            on=probe.vantage,
            probe=probe.name,
            bounds=probe.bounds("recovery"),
            within_s=experiment.recovery.within,
            every_s=experiment.recovery.every,
        )
        for probe in experiment.steady_state
    ]


def _unload(experiment: Experiment, until: Literal["undo", "end"]) -> list[Step]:
    phase: Phase = "undo" if until == "undo" else "end"
    return [
        UnloadStep(id=f"unload.{load.name}", phase=phase, load=load.name)
        for load in experiment.load
        if load.until == until
    ]


def _command(item: Setup | Load) -> Command:
    return Command(
        argv=_argv(item.run),
        user=item.user,
        cwd=item.cwd,
        env=item.env,
        timeout_s=item.timeout if isinstance(item, Setup) else 86_400.0,
    )


def _argv(run: Run) -> tuple[str, ...]:
    return ("/bin/sh", "-c", run) if isinstance(run, str) else run


def _planned_probe(probe: Probe) -> PlannedProbe:
    spec: dict[str, Any] = {}
    for name, value in probe.measurement:
        spec[name] = list(value) if isinstance(value, tuple) else value
    if "run" in spec:
        spec["run"] = list(_argv(spec["run"]) if isinstance(spec["run"], str) else spec["run"])
    return PlannedProbe(kind=probe.kind, vantage=probe.vantage, spec=spec)


def planned_fault(fault: Fault) -> PlannedFault:
    """A fault's part of a plan."""
    act = fault.plan()
    return PlannedFault(
        kind=fault.kind,
        params=fault.params(),
        counts=fault.counts,
        needs=fault.needs,
        apply=act.apply,
        undo=act.undo,
        read=act.read,
        warm=act.warm,
        cannot_know=fault.cannot_know(),
    )
