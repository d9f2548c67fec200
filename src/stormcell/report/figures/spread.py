"""Latencies phase by phase: each answer at its rank, p50 and p95 marked, the bounds drawn."""

from __future__ import annotations

from collections.abc import Iterator

from stormcell.judge.wording import percent
from stormcell.judge.wording import seconds as duration
from stormcell.report.evidence import Limit, Spread, SpreadRow
from stormcell.report.figures import box, fitted, line, relation, room, sheet, text
from stormcell.report.markup import Html, tag
from stormcell.report.measured import LATENCIES
from stormcell.report.scale import Log, log_for
from stormcell.report.words import between

INNER, UNDER = 46.0, 24.0
"""Height of a row, and of the words under it."""
NAMES = {"before": "before", "under": "under the fault", "recovery": "after"}


def draw(spread: Spread, width: int) -> Html:
    """A row for each phase on one axis of latency."""
    narrow = width <= 600
    gutter = 20.0 if narrow else 190.0
    values = [value for row in spread.rows for value in row.values]
    bounds = [limit.value for row in spread.rows for limit in row.limits if limit.metric in LATENCIES]
    x = log_for([*values, *bounds], gutter, width - 14.0)
    parts: list[Html] = []
    y = 4.0
    for row in spread.rows:
        y += 28.0 if narrow else 4.0
        parts += _words(row, y, narrow, width)
        parts += _row(row, x, y)
        y += INNER + UNDER
    grid = [line(x.at(tick), 6, x.at(tick), y, "grid") for tick in x.ticks(5 if narrow else 10)]
    y += 4
    parts.append(line(x.start, y, x.end, y, "axis"))
    for tick in x.ticks(5 if narrow else 10):
        parts.append(text(x.at(tick), y + 15, duration(tick), "tick", "middle"))
    label = f"latency of the answers{' in guest time*' if spread.guest_time else ''} (log scale)"
    label += "" if narrow else "; height in a row is the rank, 0 to 100 %"
    parts.append(text(x.end, y + 30, label, "small", "end"))
    said = f"Latencies of {spread.probe}: " + "; ".join(
        f"{NAMES.get(row.phase, row.phase)} n = {row.attempts}, p50 {_said(row.p50)}, p95 {_said(row.p95)}"
        for row in spread.rows
    )
    return sheet(width, y + 36, said, *grid, *parts)


def _said(value: float | None) -> str:
    return "none" if value is None else duration(value)


def _words(row: SpreadRow, y: float, narrow: bool, width: float) -> Iterator[Html]:
    name = NAMES.get(row.phase, row.phase)
    rate = percent(row.succeeded / row.attempts) if row.attempts else "nothing"
    said = f"{row.succeeded:,} of {row.attempts:,} succeeded ({rate})"
    bad = "bad-words" if row.succeeded < row.attempts else "small"
    if narrow:
        yield text(4, y - 16, f"{name}", "lane-title")
        yield text(width - 8, y - 16, said, bad, "end")
    else:
        yield text(0, y + 16, name, "lane-title")
        yield text(0, y + 32, said, bad)
        others = ", ".join(f"{count:,} times {what}" for what, count in row.outcomes)
        if others:
            yield text(0, y + 47, fitted(others, 182), "small")
        elif row.interval:
            yield text(0, y + 47, f"95 % interval {between(row.interval)}", "small")


def _row(row: SpreadRow, x: Log, y: float) -> Iterator[Html]:
    inner = INNER
    yield box(x.start, y, x.end - x.start, inner, f"row r-{row.phase if row.phase in NAMES else 'recovery'}")
    for number, limit in enumerate(limit for limit in row.limits if limit.metric in LATENCIES):
        yield from _bound(row, limit, x, y, inner, number)
    last = max(1, len(row.values) - 1)
    places = [(x.at(value), y + inner - 4 - (inner - 8) * rank / last) for rank, value in enumerate(row.values)]
    if len(places) == 1:
        places = [(places[0][0], y + inner / 2)]
    if len(places) > 1:
        yield tag("polyline", points=" ".join(f"{a:.1f},{b:.1f}" for a, b in places), class_=f"curve c-{row.phase}")
    if len(places) <= 80:
        for (a, b), value in zip(places, row.values, strict=True):
            told = tag("title", duration(value))
            yield tag("g", tag("circle", cx=float(a), cy=float(b), r=2.6, class_=f"rank c-{row.phase}"), told)
    if not row.values:
        yield text((x.start + x.end) / 2, y + inner / 2 + 4, "no answer came", "bad-words", "middle")
    yield from _quantiles(row, x, y, inner)


def _quantiles(row: SpreadRow, x: Log, y: float, inner: float) -> Iterator[Html]:
    marks = [(name, value, x.at(value)) for name, value in (("p50", row.p50), ("p95", row.p95)) if value is not None]
    for _, _, at in marks:
        yield tag("path", d=f"M{at:.1f} {y + inner:.1f}l-4 7h8z", class_=f"quantile c-{row.phase}")
    words = [(f"{name} {duration(value)}", at) for name, value, at in marks]
    if len(words) == 2 and words[1][1] - words[0][1] < room(words[0][0]) / 2 + room(words[1][0]) / 2 + 6:
        words = [(f"{words[0][0]} · {words[1][0]}", (words[0][1] + words[1][1]) / 2)]
    for label, at in words:
        half = room(label) / 2
        yield text(min(max(at, x.start + half), x.end - half), y + inner + 18, label, "small", "middle")


def _bound(row: SpreadRow, limit: Limit, x: Log, y: float, inner: float, number: int) -> Iterator[Html]:
    at, label = x.at(limit.value), relation(f"{limit.metric} {limit.text}")
    broken = "" if limit.holds else " broken"
    yield line(at, y - 3, at, y + inner + 3, f"bound{broken}")
    left = at - x.start > room(label, 10.5) + 6
    low = not row.values or limit.value >= row.values[len(row.values) // 2]  # the curve rises to the right
    place = y + inner - 5 - 12 * (number % 3) if low else y + 10 + 12 * (number % 3)
    yield text(at - 4 if left else at + 4, place, label, f"bound-name{broken} halo", "end" if left else "start")
