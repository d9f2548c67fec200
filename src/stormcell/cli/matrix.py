"""A campaign's matrix as people read it: what is planned, and what came out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stormcell.cli.progress import MARK
from stormcell.judge.wording import percent
from stormcell.judge.wording import seconds as span
from stormcell.spec.matrix import CampaignResult, CellResult, Comparison, Point, Proportion, SearchResult, Summary

if TYPE_CHECKING:
    from stormcell.engine.campaigns.api import CampaignRun

HEADINGS = ("cell", "verdict", "survived", "under the fault", "too little for")
_SHOWN = ("success_rate", "p95", "number", "seconds", "exit_code", "size", "exists", "matches")


def plan_data(session: CampaignRun) -> dict[str, Any]:
    """The matrix as JSON data, nothing started."""
    campaign = session.campaign
    return {
        "campaign": campaign.campaign.campaign,
        "axes": [{"name": axis.name, "path": axis.path, "labels": list(axis.labels)} for axis in campaign.axes],
        "cells": [
            {"name": item.cell.name, "digest": item.cell.digest, "at": dict(item.cell.at)} for item in campaign.cells
        ],
        "runs": [
            {"id": run.id, "cell": item.cell.name, "seed": run.seed, "repeat": run.repeat}
            for item, run in session.planned
        ],
        "find": campaign.campaign.find.sentence if campaign.campaign.find else None,
        "jobs": session.jobs,
        "fail_fast": session.fail_fast,
    }


def show_plan(session: CampaignRun) -> None:
    """Which cells there are and how often each runs."""
    from rich.markup import escape
    from rich.table import Table

    from stormcell.cli.screen import Screen

    campaign, console = session.campaign, Screen()
    console.print(f"[bold]{campaign.campaign.campaign}[/bold]  {escape(campaign.campaign.question)}")
    if campaign.campaign.find is not None:
        find = campaign.campaign.find
        console.print(f"searches {escape(find.sentence)}: at most {find.most_runs} runs, {find.repeats} at one value")
        console.print("nothing is started")
        return
    ends = "ends at the first failure" if session.fail_fast else "runs all"
    count = len(session.planned)
    console.print(f"{len(campaign.cells)} cells, {count} runs, {session.jobs} at a time, {ends}; nothing is started\n")
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("#", "cell", *(axis.name for axis in campaign.axes if axis.path), "fault", "runs", "seeds"):
        table.add_column(heading, no_wrap=heading in ("cell", "runs"))
    for number, item in enumerate(campaign.cells, 1):
        seeds = [run.seed for other, run in session.planned if other is item]
        kinds = ", ".join(one.fault.kind for one in item.loaded.disturbances)
        labels = [item.cell.at[axis.name] for axis in campaign.axes if axis.path]
        shown = ", ".join(map(str, sorted(set(seeds))[:8])) + (", ..." if len(set(seeds)) > 8 else "")
        table.add_row(str(number), *map(escape, (item.cell.name, *labels, kinds)), str(len(seeds)), shown)
    console.print(table)


def show(result: CampaignResult, folder: Path) -> None:
    """The matrix, or where a search ended, and what the campaign cannot know."""
    from rich.markup import escape
    from rich.table import Table

    from stormcell.cli.screen import Screen

    console = Screen(piped=200)
    style = MARK[str(result.verdict)]
    title = f"[{style} bold]{result.verdict}[/{style} bold]  {escape(result.campaign)}  {escape(result.question)}"
    console.print(title)
    for reason in result.reasons:
        console.print(f"  {escape(reason.text)}  [dim]({reason.code})[/dim]")
    if result.search is not None:
        _show_search(console, result.search)
    else:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in HEADINGS:
            table.add_column(heading, no_wrap=heading in ("cell", "verdict", "survived"))
        for one in result.cells:
            name, verdict, *rest = row(one)
            mark = MARK.get(verdict, "dim")
            table.add_row(escape(name), f"[{mark}]{verdict}[/{mark}]", *(escape(text) for text in rest))
        console.print()
        console.print(table)
    _show_list(
        console,
        "differences that are more than chance (corrected for all comparisons)",
        [_difference(c) for c in result.comparisons if c.differs],
    )
    missed = sum(c.too_few for c in result.comparisons)
    if missed:
        console.print(f"\n{missed} of {len(result.comparisons)} comparisons had too few runs to show any difference")
    _show_list(console, "what this campaign cannot know", result.cannot_know)
    console.print(f"\nfolder {escape(str(folder))}", soft_wrap=True)


def markdown(result: CampaignResult) -> str:
    """The table, or the points of a search."""
    head: tuple[str, ...] = HEADINGS
    rows = [row(one) for one in result.cells]
    if result.search is not None:
        head, rows = ("value", "broke", "runs"), [_point_row(point) for point in result.search.points]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    lines += [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in one)} |" for one in rows]
    return "\n".join(lines)


def row(one: CellResult) -> tuple[str, ...]:
    """One text for each of HEADINGS."""
    return (
        one.name,
        str(one.verdict or "unfinished"),
        _share(one.survived),
        "; ".join(_summaries(one)) or "nothing",
        "; ".join(_too_little(one)),
    )


def _share(share: Proportion) -> str:
    if share.low is None or share.high is None:
        return "none"
    return f"{share.good} of {share.total} ({percent(share.low)} to {percent(share.high)})"


def _too_little(one: CellResult) -> Iterator[str]:
    if one.survived.few:
        yield "how often"
    for summary in one.summaries:
        if summary.note and summary.phase == "under" and summary.metric in _SHOWN and summary.metric != "success_rate":
            yield f"{summary.probe} {summary.metric}"


def _summaries(one: CellResult) -> Iterator[str]:
    for summary in one.summaries:
        if summary.phase == "under" and summary.metric in _SHOWN and summary.value is not None:
            yield f"{summary.probe} {summary.metric} {_interval(summary)}"


def _interval(summary: Summary) -> str:
    value = _number(summary.value, summary.unit)
    if summary.low is None or summary.high is None or summary.low == summary.high:
        return value
    return f"{value} ({_number(summary.low, summary.unit)} to {_number(summary.high, summary.unit)})"


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return "none"
    if unit == "duration":
        return span(value)
    if unit == "ratio":
        return percent(value)
    return ("true" if value else "false") if unit == "bool" else f"{value:g}"


def _difference(c: Comparison) -> str:
    between = "" if c.low is None or c.high is None else f" ({percent(c.low)} to {percent(c.high)})"
    share = f"{'+' if c.difference > 0 else ''}{percent(c.difference)}{between}"
    return f"{c.of} against {c.against}: {share} in the share that survives (p = {c.p:.2g})"


def _show_search(console: Any, search: SearchResult) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("value", "broke", "runs"):
        table.add_column(heading)
    for point in search.points:
        table.add_row(*map(escape, _point_row(point)))
    console.print()
    console.print(table)
    _show_list(console, "how sure", search.cautions)


def _point_row(point: Point) -> tuple[str, ...]:
    said = {True: "yes", False: "no", None: "not decided"}[point.broke]
    return point.text, said, f"{point.share.good} of {point.share.total} broke"


def _show_list(console: Any, title: str, sentences: Any) -> None:
    from rich.markup import escape

    if sentences:
        console.print(f"\n[bold]{title}[/bold]")
        for sentence in sentences:
            console.print(f"  - {escape(sentence)}")
