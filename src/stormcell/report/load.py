"""Reads runs' folders into the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stormcell import __version__
from stormcell.engine.api import judge_folder, saved_result
from stormcell.engine.folder import read_experiment, read_plan, read_receipts
from stormcell.engine.load import disturbance
from stormcell.engine.receipts import receipt
from stormcell.engine.sealed.bundle import known
from stormcell.judge.events import read_events
from stormcell.judge.verdict import judge
from stormcell.report.campaigns import is_campaign, load_campaign
from stormcell.report.model import ORDER, Campaign, Problem, Report, Run
from stormcell.report.parted import branches, comparison
from stormcell.report.story import story
from stormcell.report.words import LINE, NAME, TEXT, words
from stormcell.spec.errors import StormcellError
from stormcell.spec.experiment import Experiment
from stormcell.spec.plan import Plan
from stormcell.spec.receipt import Receipt


def load_run(folder: Path, source: str = "") -> Run:
    """One run, judged again from its folder. Raises SpecError when the folder is none, or is damaged."""
    plan, receipts = read_plan(folder), read_receipts(folder)
    path = folder / "events.jsonl"
    events = read_events(path) if path.exists() else []
    result = judge(plan, events, receipts) if plan.role != "drive" else judge_folder(folder)
    receipts = receipts or _receipts_again(folder, plan, events)
    saved = saved_result(folder)
    remark = ""
    if saved is None:
        remark = "the run itself never wrote a result: it was ended before it could conclude"
    elif saved.get("verdict") != str(result.verdict):
        remark = f"the run itself had concluded '{saved.get('verdict')}'; this page judges the same events again"
    sealed = known(folder) if plan.sealed else None
    run = story(plan, events, receipts, result, folder=str(folder), source=source, remark=remark, sealed=sealed)
    if not result.branches:
        return run
    return replace(run, branches=branches(folder, result, load_run), comparison=comparison(result))


def _receipts_again(folder: Path, plan: Plan, events: Sequence[Mapping[str, Any]]) -> dict[str, Receipt]:
    """Of a run that was cut off before it wrote them: from its events, as the run itself would have made them."""
    try:
        named = Experiment.model_validate(read_experiment(folder)).disturbances
        items = [disturbance(name, number, mapping) for number, (name, mapping) in enumerate(named.items(), 1)]
        return {item.id: receipt(item, plan, events) for item in items if item.id in plan.faults}
    except (StormcellError, ValueError, TypeError, KeyError):
        return {}


def load_report(
    folders: Iterable[tuple[Path, str]],
    *,
    title: str = "",
    made: datetime | None = None,
    errors: Sequence[tuple[str, StormcellError]] = (),
    interrupted: bool = False,
) -> Report:
    """All of them; a folder that cannot be read, or a run that could not be made, becomes a Problem."""
    runs: list[Run] = []
    campaigns: list[Campaign] = []
    problems = [problem(what, error) for what, error in errors]
    for folder, source in folders:
        try:
            if is_campaign(folder):
                campaigns.append(load_campaign(folder, load_run))
            else:
                runs.append(load_run(folder, source))
        except StormcellError as error:
            problems.append(problem(str(folder), error))
    return Report(
        title=words(title or _title([*campaigns, *runs]), NAME),
        made=(made or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ"),
        version=__version__,
        runs=tuple(sorted(runs, key=_first)),
        campaigns=tuple(sorted(campaigns, key=lambda campaign: ORDER.get(campaign.verdict, 0))),
        problems=tuple(problems),
        interrupted=interrupted,
    )


def _title(found: Sequence[Run | Campaign]) -> str:
    if len(found) == 1:
        return found[0].name
    return f"{len(found)} {'campaigns' if all(isinstance(item, Campaign) for item in found) else 'experiments'}"


def _first(run: Run) -> tuple[int, bool]:
    return ORDER.get(run.verdict, 0), not run.surprise


def problem(what: str, error: StormcellError) -> Problem:
    """An error as the page shows it."""
    return Problem(words(what, LINE), type(error).__name__, words(error, TEXT))
