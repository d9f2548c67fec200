"""Experiment in, plan out: pure. What a dry run prints is what happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from stormcell.engine.nodes import act_of, in_node, node_steps
from stormcell.engine.timeline import ends_after, moments
from stormcell.faults.machine_crash import MachineCrash
from stormcell.spec.experiment import Abort, Experiment, Load, Setup
from stormcell.spec.fault import Command, Fault
from stormcell.spec.plan import (
    ApplyStep,
    InventoryStep,
    Level,
    LoadStep,
    MachineStep,
    NeedsStep,
    Phase,
    Plan,
    PlannedAbort,
    PlannedFault,
    PlannedProbe,
    ProbeStep,
    RecoverStep,
    RunStep,
    Step,
    UndoStep,
    UnloadStep,
    WaitStep,
    WatchStep,
)
from stormcell.spec.probe import Probe, Run
from stormcell.spec.schedule import Disturbance

FEW = 5
"""Attempts of one look at an abort condition, or at the moment of a fork."""


def compile_plan(
    experiment: Experiment, disturbances: Sequence[Disturbance], *, template_digest: str = "", seed: int = 0
) -> Plan:
    """The timed steps of one run, in order."""
    steps = [*needs(disturbances), *beginning(experiment), *probes(experiment, "before")]
    return plan_of(
        experiment, disturbances, [*steps, *middle(experiment, disturbances)], digest=template_digest, seed=seed
    )


def plan_of(
    experiment: Experiment,
    disturbances: Sequence[Disturbance],
    steps: Sequence[Step],
    *,
    digest: str = "",
    seed: int = 0,
    role: Literal["whole", "drive", "branch", "control"] = "whole",
    branches: tuple[str, ...] = (),
) -> Plan:
    """A plan of these steps."""
    return Plan(
        role=role,
        branches=branches,
        experiment=experiment.name,
        question=experiment.question,
        template=experiment.template,
        template_digest=digest,
        seed=seed,
        deadline_s=experiment.deadline,
        ttl_s=experiment.ttl,
        prediction=experiment.prediction,
        open_ports=experiment.open_ports,
        raw_state=experiment.raw_state,
        probes={probe.name: planned_probe(probe) for probe in experiment.steady_state},
        faults={item.id: planned(item, seed) for item in disturbances},
        aborts=tuple(_planned_abort(experiment, abort) for abort in experiment.abort),
        steps=tuple(steps),
    )


def needs(disturbances: Sequence[Disturbance]) -> list[Step]:
    """Whether the guest can do what is asked."""
    return [NeedsStep(id=f"needs.{item.id}", phase="setup", fault=item.id) for item in disturbances]


def beginning(experiment: Experiment) -> list[Step]:
    """Nodes, setup and loads."""
    steps: list[Step] = [*node_steps(experiment.nodes)]
    for number, setup in enumerate(experiment.setup, 1):
        steps.append(RunStep(id=f"setup.{number}", phase="setup", command=_command(setup)))
    for load in experiment.load:
        steps.append(LoadStep(id=f"load.{load.name}", phase="before", load=load.name, command=_command(load)))
    return steps


def middle(experiment: Experiment, disturbances: Sequence[Disturbance]) -> list[Step]:
    """From the act to the end; of a crash, what is left to be asked."""
    crash = next((d for d in disturbances if isinstance(d.fault, MachineCrash)), None)
    return _crash(experiment, crash) if crash is not None else _middle(experiment, disturbances)


def _middle(experiment: Experiment, disturbances: Sequence[Disturbance]) -> list[Step]:
    acts: list[Step] = [
        ApplyStep(id=f"apply.{item.id}", phase="fault", on=_carrier(item), fault=item.id) for item in disturbances
    ]
    waits: list[Step] = []
    if any(item.schedule for item in disturbances):
        waits.append(WaitStep(id="schedules", phase="under", schedules=True))
    undos: list[Step] = []
    for item in reversed(disturbances):
        undos.append(UndoStep(id=f"undo.{item.id}", phase="undo", on=_carrier(item), fault=item.id))
        if item is not disturbances[0]:
            undos.append(InventoryStep(id=f"inventory.{item.id}", phase="undo", label="between"))
    return around(experiment, acts, waits, undos)


def around(experiment: Experiment, acts: Sequence[Step], waits: Sequence[Step], undos: Sequence[Step]) -> list[Step]:
    """The steps that surround acts, what is waited for under them, and undos."""
    steps: list[Step] = [InventoryStep(id="inventory.before", phase="before", label="before")]
    if experiment.abort:
        steps.append(WatchStep(id="watch", phase="fault"))
    steps += acts
    if experiment.settle:
        steps.append(WaitStep(id="settle", phase="under", seconds=experiment.settle))
    steps += probes(experiment, "under")
    if experiment.hold:
        steps.append(WaitStep(id="hold", phase="under", seconds=experiment.hold, since_act=True))
    steps += [*waits, *undos]
    steps += _unload(experiment, "undo")
    steps += _recovery(experiment)
    steps.append(InventoryStep(id="inventory.undone", phase="end", label="undone"))
    steps += _unload(experiment, "end")
    return steps


def _carrier(item: Disturbance) -> Literal["guest", "host"]:
    return "host" if item.fault.on_machine else "guest"


def _crash(experiment: Experiment, item: Disturbance) -> list[Step]:
    """A crash takes the load and the runner with it; what is left to ask is whether the next boot recovers."""
    params = item.fault.params()
    act = MachineStep(
        id=f"act.{item.id}",
        phase="fault",
        fault=item.id,
        mode=params["mode"],
        boot=bool(params["boot"]),
        boot_within_s=experiment.cold_boot_within,
    )
    return [act, *_recovery(experiment)] if act.boot else [act]


def probes(experiment: Experiment, phase: Literal["before", "under"]) -> list[Step]:
    """One measurement of each."""
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
        argv=argv_of(item.run),
        user=item.user,
        cwd=item.cwd,
        node=item.node,
        env=item.env,
        timeout_s=item.timeout if isinstance(item, Setup) else 86_400.0,
    )


def argv_of(run: Run) -> tuple[str, ...]:
    """Shell text as a command."""
    return ("/bin/sh", "-c", run) if isinstance(run, str) else run


def planned_probe(probe: Probe) -> PlannedProbe:
    """A probe's part of a plan."""
    spec: dict[str, Any] = {}
    for name, value in probe.measurement:
        spec[name] = list(value) if isinstance(value, tuple) else value
    if "run" in spec:
        spec["run"] = list(argv_of(spec["run"]) if isinstance(spec["run"], str) else spec["run"])
    if probe.node is not None:
        spec["node"] = probe.node
    return PlannedProbe(kind=probe.kind, vantage=probe.vantage, spec=spec)


def _planned_abort(experiment: Experiment, abort: Abort) -> PlannedAbort:
    probe = next((probe for probe in experiment.steady_state if probe.name == abort.probe), None)
    spec = short_look(probe) if probe is not None else {}
    return PlannedAbort(
        name=abort.name,
        on=probe.vantage if probe is not None else "guest",
        every_s=abort.every,
        bounds=abort.bounds(probe.kind if probe is not None else "command"),
        probe=abort.probe,
        spec=spec,
        file=abort.file,
        key=abort.key,
    )


def short_look(probe: Probe) -> dict[str, Any]:
    """How a probe measures that is looked at again and again."""
    spec = dict(planned_probe(probe).spec)
    if probe.kind in ("http", "tcp"):
        spec |= {"rate": None, "duration": None, "count": min(spec.get("count") or FEW, FEW)}
    return spec


def planned(item: Disturbance, seed: int = 0) -> PlannedFault:
    """A fault's part of a plan."""
    act, fault = act_of(item.fault), item.fault
    levels = [_level(level) for level in item.levels]
    for number in range(1, len(levels)):
        change = item.levels[number - 1].change(item.levels[number])
        levels[number] = levels[number].model_copy(update={"change": in_node(fault, change or ())})
    in_place = [bool(level.change) for level in levels]
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
        levels=tuple(levels),
        moments=moments(item.schedule, f"{seed}/{item.id}", in_place) if item.schedule else (),
        over_s=ends_after(item.schedule) if item.schedule else 0.0,
    )


def _level(fault: Fault) -> Level:
    act = act_of(fault)
    return Level(params=fault.params(), apply=act.apply, undo=act.undo, read=act.read)
