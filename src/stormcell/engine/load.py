"""From a file to an experiment that can be compiled. Everything is checked here, before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stormcell import faults
from stormcell.engine.nodes import Misplaced, in_different_nodes, node_of, resolved
from stormcell.engine.times import contradictions
from stormcell.faults.machine_crash import MachineCrash
from stormcell.spec import yamlfile
from stormcell.spec.complaints import complaint
from stormcell.spec.errors import SpecError
from stormcell.spec.experiment import Experiment
from stormcell.spec.fault import Fault
from stormcell.spec.home import Home
from stormcell.spec.recipe import Recipe
from stormcell.spec.schedule import Disturbance, Ramp, Schedule
from stormcell.spec.value import nearest
from stormcell.spec.yamlfile import Document
from stormcell.template.store import find


@dataclass(frozen=True)
class LoadedBranch:
    """A checked branch with its faults."""

    name: str
    disturbances: tuple[Disturbance, ...]


@dataclass(frozen=True)
class Loaded:
    """A checked experiment with its recipe, and with its faults or its branches. `text` is the file as it was read."""

    experiment: Experiment
    disturbances: tuple[Disturbance, ...]
    recipe: Recipe
    source: str
    text: str = ""
    branches: tuple[LoadedBranch, ...] = ()

    def where(self, path: Iterable[str | int]) -> str:
        """`FILE:LINE` of a field, or of the nearest one above it; without the file's text the source alone."""
        return yamlfile.parse(self.text, self.source).where(path) if self.text else self.source


def load_file(path: Path, home: Home | None = None) -> Loaded:
    """Read and check an experiment file. Raises SpecError or TemplateNotFound; nothing was started."""
    return load_document(yamlfile.load(path, "experiment"), path.parent, home)


def load_document(document: Document, folder: Path, home: Home | None = None) -> Loaded:
    """Check an experiment that was read. `folder` is where a relative template path starts."""
    experiment = yamlfile.validated(document, Experiment.model_validate, "experiment")
    if document.data.get("nodes") == {}:
        raise SpecError(
            "nodes: there is none in it",
            where=document.where(("nodes",)),
            rule="`nodes` names the nodes that the machine is to have",
            remedy="leave `nodes` out, or name one: nodes: {a: {}}",
        )
    recipe = _recipe(experiment, folder, document.where(("template",)), home)
    return _loaded(experiment, document, recipe)


def check_fault(loaded: Loaded) -> None:
    """Raises SpecError for an experiment that only `explore` disturbs: a plain run of it would prove nothing."""
    if loaded.disturbances or loaded.branches:
        return
    raise SpecError(
        "it has no fault, so that a run would prove nothing",
        where=loaded.source,
        rule="only `stormcell explore` disturbs what has an `explore` section and no fault",
        remedy="use `stormcell explore FILE`, or give it a fault",
    )


def load_mapping(
    data: Mapping[str, Any] | Experiment,
    folder: Path | None = None,
    home: Home | None = None,
    recipe: Recipe | None = None,
    first: int = 1,
) -> Loaded:
    """The same for an experiment made in Python. `folder` is where a relative template path starts, unless the recipe
    is known. `first` is the number of its first fault, where others are in force already."""
    document = yamlfile.Document(data, "experiment")
    experiment = (
        data if isinstance(data, Experiment) else yamlfile.validated(document, Experiment.model_validate, "experiment")
    )
    recipe = recipe or _recipe(experiment, folder or Path.cwd(), "template", home)
    return _loaded(experiment, document, recipe, first)


def load_over(document: Document, recipe: Recipe, first: int = 1) -> Loaded:
    """Check an experiment that was read, for a recipe that is known. `first`: as above. Raises SpecError."""
    return _loaded(yamlfile.validated(document, Experiment.model_validate, "experiment"), document, recipe, first)


def _loaded(experiment: Experiment, document: Document, recipe: Recipe, first: int = 1) -> Loaded:
    disturbances: tuple[Disturbance, ...] = ()
    branches: list[LoadedBranch] = []
    if experiment.branches is None:
        disturbances = _disturbances(experiment, document, recipe, first=first)
    for name in experiment.branches or ():
        one = experiment.branch(name)
        branches.append(LoadedBranch(name, _disturbances(one, document, recipe, ("branches", name))))
    if experiment.moment is not None and (log := experiment.moment.log) is not None:
        _check_service_of(log.node, log.service, experiment, recipe, document.where(("moment", "log", "service")))
    return Loaded(experiment, disturbances, recipe, document.source, document.text, tuple(branches))


def _disturbances(
    experiment: Experiment, document: Document, recipe: Recipe, place: tuple[str, ...] = (), *, first: int = 1
) -> tuple[Disturbance, ...]:
    """Every fault with its schedule. Raises SpecError, also for two that cannot be together.

    `place` is where in the document they are; a branch may be a fault's mapping alone.
    """
    found: list[Disturbance] = []
    alone = place if (*place, "kind") in document.lines else (*place, "fault")
    for number, (name, mapping) in enumerate(experiment.disturbances.items(), first):
        at: tuple[str, ...] = alone if experiment.faults is None else (*place, "faults", name)
        one = disturbance(name, number, _placed(mapping, experiment, document, at), document, at)
        service = getattr(one.fault, "service", None)
        _check_service_of(node_of(one.fault), service, experiment, recipe, document.where((*at, "service")))
        for other in found:
            check_together(other, one, document.where(at))
        found.append(one)
    for wrong in contradictions(experiment, found):
        there = (*place, *wrong.at) if wrong.at[0] in ("fault", "faults") else wrong.at
        where = document.where(int(part) if part.isdigit() else part for part in there)
        raise SpecError(f"{'.'.join(there)}: {wrong.what}", where=where, rule=wrong.rule, remedy=wrong.remedy)
    return tuple(found)


def _placed(
    mapping: Mapping[str, Any], experiment: Experiment, document: Document, at: tuple[str, ...]
) -> dict[str, Any]:
    try:
        return resolved(mapping, experiment.nodes)
    except Misplaced as error:
        where = document.where((*at, error.field))
        what = f"{'.'.join((*at, error.field))}: {error.what}"
        raise SpecError(what, where=where, rule=error.rule, remedy=error.remedy) from None


def disturbance(
    name: str, number: int, mapping: Mapping[str, Any], document: Document | None = None, at: tuple[str, ...] = ()
) -> Disturbance:
    """One fault from its mapping, which may hold a `schedule`. Raises SpecError."""
    document = document or Document(mapping, name)
    params = {key: value for key, value in mapping.items() if key != "schedule"}
    fault = yamlfile.validated(document, lambda _: faults.parse(params), name, at=at).named(name, number)
    if mapping.get("schedule") is None:
        return Disturbance(fault)
    there = (*at, "schedule")
    schedule = yamlfile.validated(document, lambda _: Schedule.model_validate(mapping["schedule"]), name, at=there)
    if fault.on_machine:
        raise SpecError(
            f"{fault.kind} has no schedule", where=document.where(there),
            rule="schedules run on the guest's clock, and this fault is carried out by the host",
        )  # fmt: skip
    if schedule.ramp is None:
        return Disturbance(fault, schedule)
    return _ramp(fault, schedule, schedule.ramp, params, document, there)


def _ramp(
    fault: Fault, schedule: Schedule, ramp: Ramp, params: Mapping[str, Any], document: Document, at: tuple[str, ...]
) -> Disturbance:
    where = document.where((*at, "ramp"))
    if ramp.parameter not in type(fault).model_fields:
        hint = nearest(ramp.parameter, type(fault).model_fields)
        name = ".".join((*at, "ramp", "parameter"))
        raise SpecError(f"{name}: {fault.kind} has no parameter '{ramp.parameter}'; {hint}", where=where)
    levels = []
    for value in ramp.through:
        try:
            level = faults.parse({**params, ramp.parameter: value})
        except ValidationError as error:
            why = complaint(error.errors(include_url=False)[0])
            what = f"{'.'.join((*at, 'ramp'))}: {ramp.parameter} = {value}: {why}"
            raise SpecError(what, where=where) from error
        levels.append(level.named(fault.id, fault.number))
    return Disturbance(levels[0], schedule, tuple(levels))


def check_together(one: Disturbance, other: Disturbance, where: str) -> None:
    """Raises SpecError when they cannot be in force at the same time."""
    if in_different_nodes(one.fault, other.fault):
        return
    for first in one.levels or (one.fault,):
        for second in other.levels or (other.fault,):
            why = first.conflicts(second) or second.conflicts(first)
            if isinstance(first, MachineCrash) or isinstance(second, MachineCrash):
                why = "a crash takes the guest with every other fault in it"
            if why:
                raise SpecError(f"'{one.id}' and '{other.id}' cannot be together: {why}", where=where)


def _recipe(experiment: Experiment, folder: Path, where: str, home: Home | None) -> Recipe:
    name = experiment.template
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    if is_path and not (folder / name).is_file():
        raise SpecError(
            f"the template '{name}' is not there",
            where=where,
            rule="a template is a name, or the path of a recipe relative to the experiment",
            remedy="mend the path, or see `stormcell template list`",
        )
    return find(str(folder / name) if is_path else name, home or Home.current())


def _check_service_of(
    node: str | None, service: str | None, experiment: Experiment, recipe: Recipe, where: str
) -> None:
    if node is None or service is None:
        _check_service(service, recipe, where)
    elif service not in (known := experiment.nodes[node].services):
        hint = nearest(service, known) if known else "it has no services"
        raise SpecError(f"the node '{node}' has no service '{service}'; {hint}", where=where)


def _check_service(service: str | None, recipe: Recipe, where: str) -> None:
    known = [item.name for item in recipe.services]
    if service is not None and service not in known:
        hint = nearest(service, known) if known else "it has no services"
        raise SpecError(f"the template '{recipe.name}' has no service '{service}'; {hint}", where=where)
