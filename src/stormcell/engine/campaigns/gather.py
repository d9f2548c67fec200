"""From the ledger and the runs' folders to the matrix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stormcell.engine.campaigns.folder import CampaignFolder
from stormcell.engine.campaigns.load import LoadedCampaign, LoadedCell
from stormcell.engine.campaigns.recovery import saved
from stormcell.engine.folder import read_plan
from stormcell.judge import campaign as judging
from stormcell.judge.cells import cell as cell_result
from stormcell.judge.events import read_events
from stormcell.judge.repeats import Run, Sight, sights
from stormcell.ledger.model import Entry, Ledger
from stormcell.spec.errors import SpecError
from stormcell.spec.expansion import Execution
from stormcell.spec.matrix import AxisResult, CampaignResult, RunLine, SearchResult
from stormcell.spec.verdict import Verdict

_LEARNT = (Verdict.SURVIVED, Verdict.FAILED)


def line(execution: Execution, entry: Entry, folder: CampaignFolder) -> RunLine:
    """One run as the ledger has it."""
    facts = entry.facts if entry.state == "finished" and entry.facts else None
    base: dict[str, Any] = {"id": execution.id, "seed": execution.seed, "repeat": execution.repeat}
    if facts is None:
        return RunLine(**base, state="unfinished", why=entry.why)
    lost = bool(facts.get("lost"))
    return RunLine(
        **base,
        state="lost" if lost else "finished",
        verdict=None if lost else Verdict(facts["verdict"]),
        why=str(facts.get("why") or ""),
        seconds=facts.get("seconds"),
        folder=str(folder.path / str(facts["folder"])),
        surprise=facts.get("surprise"),
    )


def gather(
    campaign: LoadedCampaign,
    runs: Sequence[tuple[LoadedCell, Execution]],
    ledger: Ledger,
    folder: CampaignFolder,
    *,
    search: SearchResult | None = None,
    info: Mapping[str, Any],
) -> CampaignResult:
    """Everything that is known, whether or not the campaign came to its end."""
    by_cell: dict[str, tuple[LoadedCell, list[Execution]]] = {}
    for item, execution in runs:
        by_cell.setdefault(item.cell.digest, (item, []))[1].append(execution)
    cells = []
    for item, mine in by_cell.values():
        kinds = [disturbance.fault.kind for disturbance in item.loaded.disturbances]
        seen = [_run(line(execution, ledger.entry(execution.id), folder)) for execution in mine]
        cells.append(cell_result(item.cell.name, item.cell.digest, item.cell.at, kinds, seen))
    axes = [AxisResult(name=axis.name, path=axis.path, labels=axis.labels) for axis in campaign.axes]
    return judging.campaign(
        campaign.campaign.campaign,
        campaign.campaign.question or str(campaign.base.data.get("question") or ""),
        axes,
        cells,
        search=search,
        info=info,
    )


def _run(one: RunLine) -> Run:
    return Run(one, _sights(Path(one.folder)) if one.verdict in _LEARNT else ())


def _sights(run: Path) -> tuple[Sight, ...]:
    """What a run measured; nothing when somebody removed its folder since."""
    try:
        return sights(read_plan(run), read_events(run / "events.jsonl"), {})
    except SpecError:
        return ()


def broke(run: RunLine, probe: str | None, metric: str | None) -> bool | None:
    """Whether a run of a search broke what the search is about; None when it says nothing about that."""
    if run.verdict not in _LEARNT:
        return None
    if probe is None:
        return run.verdict is Verdict.FAILED
    result = saved(Path(run.folder))
    if result is None:
        return None
    seen = [item for item in result.probes if item.probe == probe and item.phase in ("under", "recovery")]
    if metric is None:
        return any(not item.holds for item in seen) if seen else None
    checks = [check for item in seen if item.phase == "under" for check in item.checks if check.metric == metric]
    return any(not check.holds for check in checks) if checks else None
