"""Reads a campaign's folder into the model, while it runs, after it and after a crash."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path

from stormcell.engine.campaigns.api import gathered
from stormcell.judge.wording import percent
from stormcell.judge.wording import seconds as duration
from stormcell.report.compare import Cell, CellNumber, Comparison, Difference, Matrix, MatrixRow, Point, Threshold
from stormcell.report.evidence import Why
from stormcell.report.model import ORDER, Brief, Campaign, Run
from stormcell.report.words import LINE, NAME, TEXT, plain, words
from stormcell.spec.errors import StormcellError
from stormcell.spec.files import read_regular
from stormcell.spec.matrix import CampaignResult, CellResult, Proportion, RunLine, SearchResult, Summary
from stormcell.spec.matrix import Comparison as Compared

MOST_IN_FULL = 16
"""Runs that are shown in full; the others have their line."""
MOST_COMPARED = 100
TEST = "Shares that survived; Fisher's exact test, corrected for all comparisons (Holm); Newcombe's interval."
STOPPED = "its process was killed"
_SHOWN = ("success_rate", "p95", "number", "seconds", "exit_code", "size", "exists", "matches", "recovered_after")


def is_campaign(folder: Path) -> bool:
    """Whether this is the folder of a campaign."""
    return (folder / "ledger.jsonl").exists()


def load_campaign(folder: Path, load_run: Callable[[Path], Run]) -> Campaign:
    """Its result, computed from the ledger when it never came to one. Raises StormcellError."""
    try:
        result = CampaignResult.model_validate(json.loads(read_regular(folder / "result.json")))
    except (OSError, ValueError):
        result = gathered(folder, {"stopped": STOPPED})
    chosen = _in_full(result, load_run)
    pages = {cell: number for number, (cell, _) in enumerate(chosen, 1)}
    return Campaign(
        name=words(result.campaign, NAME),
        question=words(result.question, TEXT),
        verdict=str(result.verdict),
        reasons=tuple(Why(words(why.code, NAME), words(why.text, TEXT)) for why in result.reasons),
        complete=result.complete,
        matrix=None if result.search else _matrix(result, pages),
        numbers=() if result.search else tuple(number for cell in result.cells for number in _numbers(cell)),
        comparison=_comparison(result),
        threshold=_threshold(result.search) if result.search else None,
        lines=tuple(_brief(line, cell.name) for cell in result.cells for line in cell.runs),
        runs=tuple(run for _, run in chosen),
        cannot_know=tuple(words(said, TEXT) for said in (*_cautions(result), *result.cannot_know)),
        folder=words(folder, LINE),
    )


def _in_full(result: CampaignResult, load_run: Callable[[Path], Run]) -> list[tuple[str, Run]]:
    """Of each cell the run that most asks for attention, the worst cells first; folders that are gone are left out."""
    best = []
    for cell in result.cells:
        ended = [line for line in cell.runs if line.folder and line.verdict is not None]
        if ended:
            line = min(ended, key=lambda line: (ORDER.get(str(line.verdict), 0), line.repeat))
            best.append((ORDER.get(str(line.verdict), 0), cell.name, Path(line.folder)))
    found = []
    for _, name, folder in sorted(best, key=lambda item: item[0])[:MOST_IN_FULL]:
        try:
            found.append((name, load_run(folder)))
        except StormcellError:
            continue
    return found


def _matrix(result: CampaignResult, pages: Mapping[str, int]) -> Matrix | None:
    """The last axis across, the others down."""
    if not result.axes:
        return None
    *down, across = result.axes if len(result.axes) > 1 else (*result.axes, None)
    by_place = {tuple(sorted(cell.at.items())): cell for cell in result.cells}
    rows = []
    for labels in product(*(axis.labels for axis in down if axis)):
        at = {axis.name: label for axis, label in zip(down, labels, strict=True) if axis}
        places = [{**at, across.name: label} for label in across.labels] if across else [at]
        cells = [by_place.get(tuple(sorted(place.items()))) for place in places]
        rows.append(MatrixRow(words(", ".join(labels), NAME), tuple(_cell(cell, pages) for cell in cells)))
    return Matrix(
        title="How often it survived",
        rows_are=words(", ".join(axis.name for axis in down if axis), NAME),
        columns_are=words(across.name, NAME) if across else "",
        columns=tuple(words(label, NAME) for label in across.labels) if across else ("runs",),
        rows=tuple(rows),
    )


def _cell(cell: CellResult | None, pages: Mapping[str, int]) -> Cell | None:
    if cell is None:
        return None
    told = [
        f"{item.probe} {item.metric} {_said(item.value, item.unit)}" for item in _under(cell) if item.value is not None
    ]
    count = cell.counts
    return Cell(
        survived=count.get("survived", 0),
        failed=count.get("failed", 0),
        void=count.get("void", 0),
        unknown=sum(count.get(name, 0) for name in ("unknown", "lost", "unfinished")),
        interval=_interval(cell.survived),
        note=words("; ".join(told[:2]), LINE),
        runs=tuple(_verdict(line) for line in cell.runs[:60]),
        page=pages.get(cell.name, 0),
    )


def _under(cell: CellResult) -> list[Summary]:
    found = [item for item in cell.summaries if item.phase == "under" and item.metric in _SHOWN]
    return [item for item in found if item.metric != "success_rate"] + [i for i in found if i.metric == "success_rate"]


def _interval(share: Proportion) -> tuple[float, float] | None:
    return None if share.low is None or share.high is None else (share.low, share.high)


def _verdict(line: RunLine) -> str:
    return str(line.verdict) if line.state == "finished" and line.verdict else line.state


def _numbers(cell: CellResult) -> Iterator[CellNumber]:
    for item in cell.summaries:
        if item.metric in _SHOWN:
            ends = (_said(item.low, item.unit), _said(item.high, item.unit))
            yield CellNumber(
                cell=words(cell.name, NAME),
                probe=words(item.probe, NAME),
                phase=item.phase,
                metric=item.metric,
                text=_said(item.value, item.unit),
                between=f"{ends[0]} to {ends[1]}" if item.low is not None and item.high is not None else "",
                runs=item.runs,
                samples=item.samples,
                note=words(item.note, LINE),
            )


def _said(value: float | None, unit: str) -> str:
    if value is None or not math.isfinite(value):
        return "none"
    if unit == "duration":
        return duration(value)
    if unit == "ratio":
        return percent(value)
    return ("true" if value else "false") if unit == "bool" else plain(value)


def _comparison(result: CampaignResult) -> Comparison | None:
    if not result.comparisons:
        return None
    cells = {cell.name: cell for cell in result.cells}
    rows = sorted((row for row in result.comparisons if row.of in cells), key=lambda row: (not row.differs, row.p))
    left = f" {len(rows) - MOST_COMPARED} more are in result.json." if len(rows) > MOST_COMPARED else ""
    told = tuple(_difference(row, cells) for row in rows[:MOST_COMPARED])
    return Comparison("What makes a difference", "", "", f"{TEST}{left}", told)


def _difference(row: Compared, cells: Mapping[str, CellResult]) -> Difference:
    of, other = cells[row.of], cells[row.against]
    return Difference(
        branch=words(row.of, NAME),
        fault=words(", ".join(of.kinds), NAME),
        verdict=str(of.verdict or "unknown"),
        metric=words(f"survived, by {row.axis}", NAME),
        control=words(f"{other.survived.good} of {other.survived.total} ({row.against})", LINE),
        measured=f"{of.survived.good} of {of.survived.total}",
        difference=row.difference * 100,
        low=None if row.low is None else row.low * 100,
        high=None if row.high is None else row.high * 100,
        unit="%",
        p=row.p,
        deviates=None if row.too_few else row.differs,
        samples=f"{of.survived.total} and {other.survived.total} runs",
        note="too few runs to show any difference" if row.too_few else "",
    )


def _threshold(search: SearchResult) -> Threshold:
    return Threshold(
        title={"found": "Where it breaks"}.get(search.outcome, f"Where it breaks: {search.outcome}"),
        parameter=words(search.sentence.partition(" between ")[0], NAME),
        criterion=words(search.sentence, LINE),
        points=tuple(
            Point(point.value, words(point.text, NAME), point.share.total, point.share.good, _interval(point.share))
            for point in search.points
        ),
        low=search.low,
        high=search.high,
        text=words(search.text, TEXT),
        cautions=tuple(words(said, TEXT) for said in search.cautions),
    )


def _brief(line: RunLine, cell: str) -> Brief:
    return Brief(
        id=words(line.id, NAME),
        cell=words(cell, NAME),
        seed=line.seed,
        repeat=line.repeat,
        verdict=_verdict(line),
        why=words(line.why, LINE),
        seconds=line.seconds,
        folder=words(line.folder, LINE),
    )


def _cautions(result: CampaignResult) -> Iterator[str]:
    for cell in result.cells if not result.search else ():
        for said in cell.cautions:
            yield f"{cell.name}: {said}"
