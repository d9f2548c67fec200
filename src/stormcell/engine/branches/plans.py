"""An experiment with branches becomes a plan for the drive to the moment, and one for each fork. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stormcell.engine.compile import (
    argv_of,
    around,
    beginning,
    middle,
    needs,
    plan_of,
    probes,
    short_look,
)
from stormcell.engine.load import Loaded
from stormcell.engine.times import longest
from stormcell.guest.nodes import service_key
from stormcell.spec.branching import ForkMoment
from stormcell.spec.experiment import Experiment
from stormcell.spec.fault import Command
from stormcell.spec.plan import ForkStep, MarkStep, MomentStep, Plan, Step, WaitStep
from stormcell.spec.schedule import Disturbance
from stormcell.spec.verdict import CONTROL

SERVICE_LOG = "/run/stormcell/log/{}.log"


def compile_drive(experiment: Experiment, branches: Sequence[str], *, digest: str = "", seed: int = 0) -> Plan:
    """Setup, loads, and the moment; without a moment the fork comes as soon as the loads run."""
    steps: list[Step] = beginning(experiment)
    if experiment.moment is not None:
        steps.append(_moment(experiment, experiment.moment))
    steps.append(ForkStep(id="fork", phase="before"))
    return plan_of(experiment, (), steps, digest=digest, seed=seed, role="drive", branches=(CONTROL, *branches))


def compile_branch(
    experiment: Experiment, disturbances: Sequence[Disturbance], *, digest: str = "", seed: int = 0
) -> Plan:
    """From the fork on: what a whole run does after setup and loads. `experiment` is the branch's own."""
    steps = [
        *needs(disturbances),
        *_settle(experiment),
        *probes(experiment, "before"),
        *middle(experiment, disturbances),
    ]
    return plan_of(experiment, disturbances, steps, digest=digest, seed=seed, role="branch")


def compile_control(
    experiment: Experiment, others: Sequence[Sequence[Disturbance]], *, digest: str = "", seed: int = 0
) -> Plan:
    """The same times and measurements, and no act. It waits as long as the longest schedule of the others."""
    acts: list[Step] = [MarkStep(id="act", phase="fault", mark="act")]
    lasts = max((longest(item.schedule) for items in others for item in items if item.schedule), default=0.0)
    waits: list[Step] = [WaitStep(id="schedules", phase="under", seconds=lasts, since_act=True)] if lasts else []
    undos: list[Step] = [MarkStep(id="undo", phase="undo", mark="undo")]
    steps = [*_settle(experiment), *probes(experiment, "before"), *around(experiment, acts, waits, undos)]
    return plan_of(experiment, (), steps, digest=digest, seed=seed, role="control")


def compile_all(
    loaded: Loaded, *, only: Sequence[str] = (), digest: str = "", seed: int = 0
) -> tuple[Plan, dict[str, Plan]]:
    """The drive, and the plans of its forks by name, the control's first. `only` names the branches to run."""
    chosen = {branch.name: branch for branch in loaded.branches if not only or branch.name in only}
    experiment = loaded.experiment
    plans = {
        CONTROL: compile_control(
            experiment, [branch.disturbances for branch in chosen.values()], digest=digest, seed=seed
        )
    }
    for name, branch in chosen.items():
        plans[name] = compile_branch(experiment.branch(name), branch.disturbances, digest=digest, seed=seed)
    for name, plan in plans.items():
        plans[name] = plan.model_copy(update={"experiment": f"{experiment.name}/{name}"})
    return compile_drive(experiment, tuple(chosen), digest=digest, seed=seed), plans


def _settle(experiment: Experiment) -> list[Step]:
    seconds = experiment.moment.settle if experiment.moment else 0.0
    return [WaitStep(id="settle.fork", phase="before", seconds=seconds)] if seconds else []


def _moment(experiment: Experiment, moment: ForkMoment) -> MomentStep:
    fields: dict[str, Any] = {"text": moment.text, "within_s": moment.within, "every_s": moment.every}
    if moment.command is not None:
        fields["command"] = Command(argv=argv_of(moment.command), user=moment.user, node=moment.node)
    elif moment.log is not None:
        log = SERVICE_LOG.format(service_key(moment.log.service or "", moment.log.node))
        fields |= {"file": moment.log.file or log, "match": moment.log.match}
    elif moment.after is not None:
        fields["after_s"] = moment.after
    else:
        probe = next(probe for probe in experiment.steady_state if probe.name == moment.probe)
        fields |= {"probe": probe.name, "spec": short_look(probe), "bounds": probe.bounds("before")}
        fields |= {"holds": moment.holds, "on": probe.vantage}
    return MomentStep(id="moment", phase="before", **fields)
