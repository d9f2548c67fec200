"""The answer of a whole campaign, from its cells. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from stormcell.judge import significance, statistics
from stormcell.judge.cells import counts, worst
from stormcell.spec.matrix import AxisResult, CampaignResult, CellResult, Comparison, SearchResult
from stormcell.spec.verdict import Reason, Verdict


def campaign(
    name: str,
    question: str,
    axes: Sequence[AxisResult],
    cells: Sequence[CellResult],
    *,
    search: SearchResult | None = None,
    info: Mapping[str, Any] | None = None,
) -> CampaignResult:
    """`info` is kept; in it `stopped` says why it ended before its last run, `crowded` that more runs were under way at
    once than there are processors, `forked` that all runs went on from one machine.
    """
    facts = dict(info or {})
    stopped = str(facts.get("stopped") or "")
    lines = [line for cell in cells for line in cell.runs]
    found = counts(lines)
    concluded = search is None or search.outcome != "unfinished"
    complete = concluded and not found["unfinished"] and not found["lost"]
    verdict, reasons = _search_verdict(search) if search is not None else _verdict(cells, found, stopped)
    return CampaignResult(
        campaign=name,
        question=question,
        verdict=verdict,
        reasons=reasons,
        axes=tuple(axes),
        cells=tuple(cells),
        comparisons=tuple(_comparisons(axes, cells)) if search is None else (),
        search=search,
        counts=found,
        complete=complete,
        cannot_know=tuple(_cannot_know(cells, search, facts)),
        info=facts,
    )


def _verdict(cells: Sequence[CellResult], found: Mapping[str, int], stopped: str) -> tuple[Verdict, tuple[Reason, ...]]:
    verdicts = [cell.verdict for cell in cells if cell.verdict is not None]
    missing = found["unfinished"] > 0
    verdict = worst([*verdicts, *[Verdict.UNKNOWN] * missing]) or Verdict.UNKNOWN
    reasons = [Reason(code=f"cells_{one}", text=text) for one, text in _by_verdict(cells)]
    if found["lost"]:
        text = f"the outcome of {found['lost']} runs was lost; they are run again only when that is asked for"
        reasons.append(Reason(code="lost", text=text))
    if missing:
        text = f"{found['unfinished']} runs have not come to an end" + (f": {stopped}" if stopped else "")
        reasons.append(Reason(code="unfinished", text=text))
    few = [cell.name for cell in cells if cell.survived.few and cell.survived.total]
    if few:
        text = f"too few runs to say how often they survive: {_listed(few)}"
        reasons.append(Reason(code="too_few", text=text))
    return verdict, tuple(reasons)


def _by_verdict(cells: Sequence[CellResult]) -> Iterator[tuple[str, str]]:
    for verdict in (Verdict.FAILED, Verdict.UNKNOWN, Verdict.VOID, Verdict.SURVIVED):
        of_it = [cell for cell in cells if cell.verdict is verdict]
        if of_it:
            mine = (verdict.value, "lost") if verdict is Verdict.UNKNOWN else (verdict.value,)
            runs = sum(cell.counts[name] for cell in of_it for name in mine)
            of = sum(len(cell.runs) for cell in of_it)
            yield verdict.value, f"{verdict.value}: {len(of_it)} of {len(cells)} cells, {runs} of their {of} runs"


def _search_verdict(search: SearchResult) -> tuple[Verdict, tuple[Reason, ...]]:
    """A threshold is an answer, and so is a range without one; only what breaks at its mildest has failed."""
    verdict = {
        "breaks everywhere": Verdict.FAILED,
        "nothing learnt": Verdict.VOID,
        "unfinished": Verdict.UNKNOWN,
    }.get(search.outcome, Verdict.SURVIVED)
    return verdict, (Reason(code="search_" + search.outcome.replace(" ", "_"), text=search.text),)


def _listed(names: Sequence[str], most: int = 5) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _comparisons(axes: Sequence[AxisResult], cells: Sequence[CellResult]) -> Iterator[Comparison]:
    """Each cell with the one that has the first value on one axis and is like it on all others."""
    by_place = {tuple(cell.at.items()): cell for cell in cells}
    pairs = []
    for axis in axes if all(axis.path for axis in axes) else ():
        for cell in cells:
            if cell.at.get(axis.name) in (None, axis.labels[0]):
                continue
            other = by_place.get(tuple({**cell.at, axis.name: axis.labels[0]}.items()))
            if other is not None and cell.survived.total and other.survived.total:
                pairs.append((axis.name, cell, other))
    plain = [significance.fisher(*_pair(cell), *_pair(other)) or 1.0 for _, cell, other in pairs]
    for (axis_name, cell, other), p in zip(pairs, significance.holm(plain), strict=True):
        (good, total), (other_good, other_total) = _pair(cell), _pair(other)
        low, high = statistics.newcombe(good, total, other_good, other_total) or (None, None)
        yield Comparison(
            axis=axis_name,
            of=cell.name,
            against=other.name,
            difference=good / total - other_good / other_total,
            low=low,
            high=high,
            p=p,
            differs=p < significance.ALPHA,
            too_few=significance.least_p(total, other_total) * len(pairs) >= significance.ALPHA,
        )


def _pair(cell: CellResult) -> tuple[int, int]:
    return cell.survived.good, cell.survived.total


def _cannot_know(cells: Sequence[CellResult], search: SearchResult | None, facts: Mapping[str, Any]) -> Iterator[str]:
    if facts.get("forked"):
        yield "All runs go on from one instant of one machine: what differs between two setups was not repeated."
    elif any(len(cell.runs) > 1 for cell in cells):
        yield (
            "Repeats start from the same warmed snapshot: what differs between two boots, or between two fillings of a "
            "cache, was not repeated."
        )
    if facts.get("crowded"):
        yield "More runs were under way at once than there are processors: latencies include waiting for one."
    if search is not None:
        yield "A search by halves takes one threshold for granted; what lies between its points was not tried."
