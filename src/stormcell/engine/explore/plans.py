"""From an experiment to the drive to its instant, and from a case to its plan behind that. Pure.

The drive sets up, starts the loads and measures the steady state once, for all cases; an experiment that does not hold
by itself is not explored. A case takes the inventory, since what `resume` set by its seed (the range of ports) is its
own; then come the noise, the wait for its moment, and the act.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stormcell.engine.compile import around, beginning, middle, needs, plan_of, probes
from stormcell.engine.explore.space import Case, Space
from stormcell.engine.load import Loaded, load_mapping
from stormcell.spec.expansion import resolve, with_value
from stormcell.spec.plan import (
    ForkStep,
    InventoryStep,
    MarkStep,
    NoiseStep,
    Plan,
    QuietStep,
    Step,
    UnloadStep,
    WaitStep,
)
from stormcell.spec.units import duration_text


def compile_instant(loaded: Loaded, *, digest: str, seed: int) -> Plan:
    """Up to the instant."""
    experiment, disturbances = loaded.experiment, loaded.disturbances
    steps = [*needs(disturbances), *beginning(experiment), *probes(experiment, "before")]
    steps.append(ForkStep(id="fork", phase="before"))
    plan = plan_of(experiment, disturbances, steps, digest=digest, seed=seed, role="drive")
    return plan.model_copy(update={"sealed": True})


def variant(loaded: Loaded, space: Space, case: Case) -> Loaded:
    """The experiment of a case. Raises SpecError for values that no experiment may have, BadPath."""
    data: dict[str, Any] = loaded.experiment.model_dump(mode="json", by_alias=True, exclude_none=True)
    for key in ("settle", "hold"):
        data[key] = duration_text(round(getattr(loaded.experiment, key) * case.length, 3))
    for path, value in space.values(case).items():
        data = with_value(data, resolve(data, path, ("explore", "vary", path)), value)
    for load in data.get("load", ()):
        if load["name"] in case.undone:
            load["until"] = "undo"
    if "faults" in data:
        data["faults"] = {name: fault for name, fault in data["faults"].items() if name in case.faults}
    for key in ("fault", "faults"):
        if key in data and not case.faults:
            del data[key]
    return load_mapping(data, recipe=loaded.recipe)


def compile_case(one: Loaded, space: Space, case: Case, *, digest: str) -> Plan:
    """From the instant on. `one` is the case's own experiment."""
    experiment = one.experiment
    steps: list[Step] = [InventoryStep(id="inventory.before", phase="before", label="before")]
    if case.noise and space.noise_gap is not None:
        noise = {"seed": case.seed, "gap_s": space.noise_gap, "first": case.first, "last": case.last}
        steps.append(NoiseStep(id="noise", phase="before", **noise))
    dropped = [name for name in space.loads if name not in case.loads]
    steps += [UnloadStep(id=f"drop.{name}", phase="before", load=name) for name in dropped]
    if case.at:
        steps.append(WaitStep(id="moment", phase="before", seconds=case.at))
    brief = [name for name in case.loads if name in case.brief]
    steps += [UnloadStep(id=f"end.{name}", phase="before", load=name) for name in brief]
    ended = {*dropped, *brief}
    rest = _quiet_at_the_end(_act(one), case.noise)
    steps += [step for step in rest if not (isinstance(step, UnloadStep) and step.load in ended)]
    plan = plan_of(experiment, one.disturbances, steps, digest=digest, seed=case.seed, role="branch")
    return plan.model_copy(update={"sealed": True})


def _act(one: Loaded) -> list[Step]:
    acts: list[Step] = [MarkStep(id="act", phase="fault", mark="act")]
    undos: list[Step] = [MarkStep(id="undo", phase="undo", mark="undo")]
    steps = middle(one.experiment, one.disturbances) if one.disturbances else around(one.experiment, acts, [], undos)
    return [step for step in steps if not (isinstance(step, InventoryStep) and step.label == "before")]


def _quiet_at_the_end(steps: Sequence[Step], noise: bool) -> list[Step]:
    """In front of the last inventory; with a crash there is none, and the noise goes down with the machine."""
    if not noise:
        return list(steps)
    place = next(
        (n for n, step in enumerate(steps) if isinstance(step, InventoryStep) and step.label == "undone"), None
    )
    if place is None:
        return list(steps)
    return [*steps[:place], QuietStep(id="quiet", phase="end"), *steps[place:]]
