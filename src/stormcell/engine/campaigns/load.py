"""From a file to a campaign whose every run can be compiled. Everything is checked here, before anything starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stormcell.engine.campaigns.cells import document_of, inline
from stormcell.engine.load import Loaded, load_document
from stormcell.spec import yamlfile
from stormcell.spec.campaign import Campaign, Find
from stormcell.spec.errors import SpecError
from stormcell.spec.expansion import Axis, BadPath, Cell, Execution, axes, cells, executions, resolve
from stormcell.spec.home import Home
from stormcell.spec.probe import METRICS
from stormcell.spec.value import nearest
from stormcell.spec.yamlfile import Document


@dataclass(frozen=True)
class LoadedCell:
    """A variant of the experiment, checked."""

    cell: Cell
    loaded: Loaded


@dataclass(frozen=True)
class LoadedCampaign:
    """A checked campaign. `folder` is where relative template paths start; `text` the file as it was read."""

    campaign: Campaign
    axes: tuple[Axis, ...]
    cells: tuple[LoadedCell, ...]
    base: Document
    folder: Path
    source: str
    text: str = ""
    field: tuple[str | int, ...] = ()
    """Of a search: where in the experiment its parameter is."""

    def executions(self, seed: int) -> list[Execution]:
        """Every run that is known beforehand; none of a search."""
        if self.campaign.find is not None:
            return []
        return executions([item.cell for item in self.cells], self.campaign.seeds, self.campaign.repeats, seed)


def is_campaign(document: Document) -> bool:
    """Whether a file is one: it names its campaign."""
    return isinstance(document.data, Mapping) and "campaign" in document.data


def load_campaign(document: Document, folder: Path, home: Home | None = None) -> LoadedCampaign:
    """Check a campaign that was read, and every cell of it. Raises SpecError or TemplateNotFound."""
    campaign = yamlfile.validated(document, Campaign.model_validate, "campaign")
    if isinstance(campaign.experiment, str):
        path = folder / campaign.experiment
        if not path.is_file():
            raise SpecError(
                f"the experiment '{campaign.experiment}' is not there",
                where=document.where(("experiment",)),
                rule="an experiment is a file relative to the campaign's, or a mapping of its fields",
            )
        base, start = yamlfile.load(path, "experiment"), path.parent
    else:
        base, start = inline(document, ("experiment",)), folder
    load_document(base, start, home)  # as it stands, so that an error in it is not blamed on the matrix
    varied = axes(campaign)
    try:
        variants = cells(base.data, varied)
        place = _parameter(base.data, campaign.find) if campaign.find else ()
    except BadPath as error:
        raise SpecError(str(error), where=document.where(error.at)) from error
    loaded = tuple(LoadedCell(cell, load_document(document_of(cell, base, document), start, home)) for cell in variants)
    _different(loaded, document)
    result = LoadedCampaign(campaign, varied, loaded, base, start, document.source, document.text, place)
    if campaign.find is not None:
        _check_search(result, document, home)
    return result


def repeated(
    files: Sequence[tuple[Document, Path]], name: str, repeats: int, home: Home | None = None
) -> LoadedCampaign:
    """A campaign out of plain experiments: each is a cell."""
    campaign = Campaign(campaign=name, experiment={}, repeats=repeats)
    found = []
    for document, folder in files:
        loaded = load_document(document, folder, home)
        label = loaded.experiment.name
        cell = Cell(label, {"experiment": label}, _absolute(document.data, folder))
        found.append(LoadedCell(cell, loaded))
    _different(found, files[0][0])
    axis = Axis("experiment", "", tuple(item.cell.name for item in found), (), ())
    return LoadedCampaign(campaign, (axis,), tuple(found), files[0][0], Path("/"), files[0][0].source)


def at_value(campaign: LoadedCampaign, value: Any, text: str, home: Home | None = None) -> LoadedCell:
    """The cell of a search with its parameter at `value`. Raises SpecError."""
    from stormcell.spec.expansion import cell_name, with_value

    place = campaign.field
    axis = str(place[-1])
    name = cell_name(str(campaign.base.data.get("name", "")), {axis: text})
    data = with_value(campaign.base.data, place, value)
    cell = Cell(name, {axis: text}, {**data, "name": name}, {place: ("find",)})
    over = Document({"find": value}, campaign.source, {("find",): 1})
    return LoadedCell(cell, load_document(document_of(cell, campaign.base, over), campaign.folder, home))


def _absolute(data: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """With the template's path as one that means the same from everywhere."""
    name = str(data.get("template", "base"))
    is_path = "/" in name or name.endswith((".yaml", ".yml"))
    return {**data, "template": str((folder / name).absolute())} if is_path else data


def _different(found: Sequence[LoadedCell], document: Document) -> None:
    seen: dict[str, str] = {}
    for item in found:
        twin = seen.setdefault(item.cell.digest, item.cell.name)
        if twin is not item.cell.name:
            raise SpecError(
                f"'{twin}' and '{item.cell.name}' are the same experiment",
                where=document.where(("matrix",)),
                rule="each cell is one experiment of its own",
                remedy="leave one out; 'repeats' runs a cell several times",
            )


def _parameter(experiment: Mapping[str, Any], find: Find) -> tuple[str | int, ...]:
    """The place of a search's parameter: a dotted path, or a fault's kind and its parameter."""
    at = ("find",)
    kind, _, parameter = find.parameter.rpartition(".")
    faults = experiment.get("faults")
    places: dict[tuple[str, ...], Any] = {("fault",): experiment.get("fault")}
    places |= {("faults", name): item for name, item in faults.items()} if isinstance(faults, Mapping) else {}
    of_kind = [place for place, item in places.items() if isinstance(item, Mapping) and item.get("kind") == kind]
    if len(of_kind) > 1:
        names = ", ".join(".".join((*place, parameter)) for place in of_kind)
        raise BadPath(f"several faults are of the kind {kind}; say which: {names}", at)
    if of_kind:
        return (*of_kind[0], parameter)
    if find.parameter.split(".")[0] not in experiment:
        raise BadPath(f"'{find.parameter}' is neither a field of the experiment nor a parameter of its faults", at)
    return resolve(experiment, find.parameter, at)


def _check_search(campaign: LoadedCampaign, document: Document, home: Home | None) -> None:
    find = campaign.campaign.find
    assert find is not None
    where = document.where(("find",))
    if campaign.cells[0].loaded.branches:
        raise SpecError(
            "find: an experiment with branches has no single fault whose parameter could be searched", where=where
        )
    for end in find.ends:
        try:
            at_value(campaign, end.plain, end.text, home)
        except SpecError as error:
            raise SpecError(f"find: at {end.text}: {error.what}", where=where, rule=error.rule) from error
    if find.probe is None:
        return
    probes = {probe.name: probe for probe in campaign.cells[0].loaded.experiment.steady_state}
    if find.probe not in probes:
        raise SpecError(f"find: there is no probe '{find.probe}'; {nearest(find.probe, probes)}", where=where)
    probe = probes[find.probe]
    if find.metric is None:
        return
    if find.metric not in METRICS[probe.kind]:
        hint = nearest(find.metric, METRICS[probe.kind])
        raise SpecError(f"find: a {probe.kind} probe has no '{find.metric}'; {hint}", where=where)
    if find.metric not in {bound.metric for bound in probe.bounds("under")}:
        raise SpecError(
            f"find: probe '{find.probe}' has no bound on {find.metric} under the fault, so that it cannot break",
            where=where,
            remedy=f"write for example under_fault: {{{find.metric}: ...}} in the experiment",
        )
