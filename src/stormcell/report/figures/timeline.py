"""Probes against phases, the fault shaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stormcell.judge.wording import seconds as duration
from stormcell.report.evidence import Dot, FaultLane, Mark, ProbeLane, Timeline
from stormcell.report.figures import box, fitted, line, relation, room, sheet, text
from stormcell.report.markup import Html, tag
from stormcell.report.scale import Linear, Log, log_for

PHASE_HEIGHT, LANE, PLOT, GAP = 22.0, 15.0, 104.0, 15.0
TITLE, FLAG = 17.0, 14.0
MOST_MARKS = 20
PHASE_NAMES = {"setup": "setup", "before": "before", "fault": "act", "under": "under the fault", "undo": "undo",
               "recovery": "after", "end": "end"}  # fmt: skip


def draw(timeline: Timeline, width: int) -> Html:
    """One figure of that width."""
    gutter = 58.0 if width > 600 else 46.0
    x = Linear(timeline.begin, timeline.end, gutter, width - 8.0)
    parts: list[Html] = []
    y = 2.0
    parts += _phases(timeline, x, y)
    y += PHASE_HEIGHT + 6
    shaded: list[Html] = []
    for lane in timeline.faults:
        parts += _fault(lane, x, y, width)
        y += TITLE + LANE + 5
    flags = _flags(timeline.marks, x)
    y += FLAG * (1 + max((row for _, row, _, _ in flags), default=-1))
    top = y
    for probe in (lane for lane in timeline.probes if lane.samples):
        y += GAP
        parts.append(text(0, y, fitted(_title(probe), width, 13.5), "lane-title halo"))
        y += 7
        height = PLOT if _has_latency(probe) else 30.0
        parts += _attempts(probe, x, y, height, width) if _has_latency(probe) else _looks(probe, x, y, height)
        y += height + 4
    for lane in timeline.faults:
        for span in lane.spans:
            shaded.append(
                box(x.at(span.begin), top, _width(x, span.begin, span.end), y - top, "shade", opacity=span.level)
            )
    bottom = y + 4
    parts += _axis(x, top, bottom, width, "s of guest time*" if timeline.guest_time else "seconds")
    marks = list(_marks(flags, x, top, bottom))
    said = f"Timeline from {duration(timeline.begin)} to {duration(timeline.end)}: " + ", ".join(
        f"{lane.kind} in force {len(lane.spans)} times" for lane in timeline.faults
    )
    return sheet(width, bottom + 34, said, *shaded, *marks, *parts)


def _title(probe: ProbeLane) -> str:
    unit = ("attempt" if _has_latency(probe) else "look") + ("s" if probe.samples != 1 else "")
    return f"{probe.probe} · {probe.kind}, seen from the {probe.vantage} · {probe.samples:,} {unit}"


def _has_latency(probe: ProbeLane) -> bool:
    return probe.kind in ("http", "tcp")


def _width(x: Linear, begin: float, end: float) -> float:
    return max(1.5, x.at(end) - x.at(begin))


def _phases(timeline: Timeline, x: Linear, y: float) -> Iterator[Html]:
    for span in timeline.phases:
        left, width = x.at(span.begin), _width(x, span.begin, span.end)
        name = PHASE_NAMES.get(span.name, span.name)
        told = tag("title", f"{name}: {duration(span.begin)} to {duration(span.end)}")
        yield box(left, y, width, PHASE_HEIGHT, f"phase p-{span.name if span.name in PHASE_NAMES else 'end'}", told)
        if label := fitted(name, width - 8):
            yield text(left + width / 2, y + 15, label, "phase-name", "middle")


def _fault(lane: FaultLane, x: Linear, y: float, width: float) -> Iterator[Html]:
    times = f", {len(lane.spans)} times" if len(lane.spans) > 1 else ""
    name = lane.kind if lane.fault == "fault" else f"{lane.fault} · {lane.kind}"
    held = sum(span.end - span.begin for span in lane.spans)
    label = f"{name} in force{times}, {duration(held)} in all" if lane.spans else f"{name}: never in force"
    yield text(0, y + 12, fitted(label, width, 13.5), "lane-title")
    y += TITLE
    yield line(x.start, y + LANE / 2, x.end, y + LANE / 2, "rule")
    for span in lane.spans:
        left, long = x.at(span.begin), _width(x, span.begin, span.end)
        told = tag("title", f"{name} {span.name} in force from {duration(span.begin)} to {duration(span.end)}")
        yield box(left, y, long, LANE, "force", told, opacity=0.35 + 0.65 * span.level)
        if label := fitted(span.name, long - 6, 10.5):
            yield text(left + long / 2, y + 11.5, label, "force-name", "middle")


def _attempts(probe: ProbeLane, x: Linear, y: float, height: float, width: float) -> Iterator[Html]:
    """A dot at its latency; what failed is a cross, without an answer at the top edge."""
    values = [dot.seconds for dot in probe.dots if dot.seconds is not None]
    scale = log_for([*values, *(bound.value for bound in probe.bounds)], y + height - 4, y + 18)
    for tick in scale.ticks(4):
        at = scale.at(tick)
        yield line(x.start, at, x.end, at, "grid")
        yield text(x.start - 5, at + 4, duration(tick), "tick", "end")
    yield line(x.start, y + height, x.end, y + height, "rule")
    for span in probe.tries:
        left, long = x.at(span.begin), _width(x, span.begin, span.end)
        yield box(left, y + 2, long, height - 4, "tries", tag("title", span.name))
        if label := fitted(span.name, long - 6):
            yield text(left + long / 2, y + height / 2, label, "small", "middle")
    yield from _bounds(probe, x, scale, width)
    for dot in probe.dots:
        at = y + 8 if dot.seconds is None else scale.at(dot.seconds)
        took = "no answer" if dot.seconds is None else f"after {duration(dot.seconds)}"
        yield _dot(dot, x.at(dot.at), at, f"{dot.outcome} {took}, begun at {duration(dot.at)}")


def _bounds(probe: ProbeLane, x: Linear, scale: Log, width: float) -> Iterator[Html]:
    """The bound on a high quantile; the table and the distribution have all of them."""
    for metric in ("p95", "p99", "max", "p50"):
        found = [bound for bound in probe.bounds if bound.text.startswith(f"{metric} ")]
        if not found:
            continue
        told: tuple[str, float] = ("", 0.0)
        for bound in found:
            at, left, right = scale.at(bound.value), x.at(bound.begin), x.at(bound.end)
            yield line(left, at, max(right, left + 6), at, "bound")
            label = relation(f"wanted {bound.text}" if width > 600 else bound.text)
            long = room(label, 10.5)
            if right - left > long and told != (bound.text, bound.value):
                told = (bound.text, bound.value)
                yield text(left + 3, at - 4, label, "bound-name halo")
        return


def _dot(dot: Dot, x: float, y: float, said: str) -> Html:
    told = tag("title", said)
    if dot.ok:
        return tag("g", tag("circle", cx=float(x), cy=float(y), r=3.0, class_="ok"), told)
    d = f"M{x - 3.4:.1f} {y - 3.4:.1f}l6.8 6.8m0 -6.8l-6.8 6.8"
    return tag("g", tag("path", d=d, class_="bad"), told)


def _looks(probe: ProbeLane, x: Linear, y: float, height: float) -> Iterator[Html]:
    """A command or a file, once in a phase: how long it took, and what it showed."""
    middle = y + height / 2 - 4
    yield line(x.start, middle, x.end, middle, "rule")
    free = 0.0
    for dot in probe.dots:
        left = x.at(dot.at)
        right = max(left + 4.0, x.at(dot.at + (dot.seconds or 0.0)))
        yield box(left, middle - 3, right - left, 6.0, "took ok" if dot.ok else "took bad")
        said = f"{dot.outcome}" + (f" in {duration(dot.seconds)}" if dot.seconds is not None else "")
        yield _dot(dot, right, middle, f"{said}, begun at {duration(dot.at)}")
        label = dot.outcome.partition(", ")[2] or dot.outcome
        if left >= free:
            anchor = "end" if left + room(label) > x.end else "start"
            yield text(right if anchor == "end" else left, middle + 17, label, "small halo", anchor)
            free = left + room(label) + 8


def _axis(x: Linear, top: float, bottom: float, width: float, unit: str) -> Iterator[Html]:
    yield line(x.start, bottom, x.end, bottom, "axis")
    for tick in x.ticks(10 if width > 600 else 5):
        at = x.at(tick)
        yield line(at, bottom, at, bottom + 4, "axis")
        yield text(at, bottom + 16, f"{tick:g} s", "tick", "middle")
    label = f"{unit} since the run began" + (", dots at their latency (log scale)" if width > 600 else "")
    yield text(x.end, bottom + 30, label, "small", "end")


Flag = tuple[Mark, int, str, bool]
"""A mark, the row of its words, the words, and whether they stand to its left."""


def _flags(marks: Sequence[Mark], x: Linear) -> list[Flag]:
    """Words in rows, so that none covers another."""
    found: list[Flag] = []
    taken: list[float] = []
    for mark in marks[:MOST_MARKS]:
        at = x.at(mark.at)
        left = x.end - at < at - x.start and room(mark.text or mark.kind) > x.end - at - 8
        label = fitted(mark.text or mark.kind, (at if left else x.end - at) - 8, 12)
        begin = at - room(label, 12) - 8 if left else at
        row = next((row for row, end in enumerate(taken) if begin > end), len(taken))
        taken[row : row + 1] = [at + 4 if left else at + room(label, 12) + 12]
        found.append((mark, row, label, left))
    return found


def _marks(flags: Sequence[Flag], x: Linear, top: float, bottom: float) -> Iterator[Html]:
    rows = 1 + max((row for _, row, _, _ in flags), default=0)
    for mark, row, label, left in flags:
        at, y = x.at(mark.at), top - FLAG * (rows - row) + 10
        yield line(at, y - 8, at, bottom, f"mark m-{mark.kind}")
        yield text(at - 4 if left else at + 4, y, label, f"mark-name m-{mark.kind}-name", "end" if left else "start")
