"""From a file to an experiment that can be compiled. Everything is checked here, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell import faults
from stormcell.spec import yamlfile
from stormcell.spec.errors import SpecError
from stormcell.spec.experiment import Experiment
from stormcell.spec.fault import Fault
from stormcell.spec.home import Home
from stormcell.spec.recipe import Recipe
from stormcell.spec.value import nearest
from stormcell.template.store import find


@dataclass(frozen=True)
class Loaded:
    """A checked experiment with its fault and its recipe. `text` is the file as it was read."""

    experiment: Experiment
    fault: Fault
    recipe: Recipe
    source: str
    text: str = ""


def load_file(path: Path, home: Home | None = None) -> Loaded:
    """Read and check an experiment file. Raises SpecError or TemplateNotFound; nothing was started."""
    document = yamlfile.load(path, "experiment")
    experiment = yamlfile.validated(document, Experiment.model_validate, "experiment")
    fault = yamlfile.validated(document, lambda data: faults.parse(data["fault"]), "fault", at=("fault",))
    recipe = _recipe(experiment, path.parent, document.where(("template",)), home)
    _check_services(fault, recipe, document.where(("fault", "service")))
    return Loaded(experiment, fault, recipe, str(path), document.text)


def load_mapping(data: Mapping[str, Any] | Experiment, folder: Path | None = None, home: Home | None = None) -> Loaded:
    """The same for an experiment made in Python. `folder` is where a relative template path starts."""
    document = yamlfile.Document(data, "experiment")
    experiment = (
        data if isinstance(data, Experiment) else yamlfile.validated(document, Experiment.model_validate, "experiment")
    )
    fault = yamlfile.validated(document, lambda _: faults.parse(experiment.fault), "fault", at=("fault",))
    recipe = _recipe(experiment, folder or Path.cwd(), "template", home)
    _check_services(fault, recipe, "fault.service")
    return Loaded(experiment, fault, recipe, "experiment")


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


def _check_services(fault: Fault, recipe: Recipe, where: str) -> None:
    service = getattr(fault, "service", None)
    known = [item.name for item in recipe.services]
    if service is not None and service not in known:
        hint = nearest(service, known) if known else "it has no services"
        raise SpecError(f"the template '{recipe.name}' has no service '{service}'; {hint}", where=where)
