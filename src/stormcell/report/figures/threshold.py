"""How often it broke, by the value of a parameter; the threshold between what held and what broke."""

from __future__ import annotations

from stormcell.report.compare import Point, Threshold
from stormcell.report.figures import box, line, room, sheet, text
from stormcell.report.markup import Html, tag
from stormcell.report.scale import Linear, Log, log_for

HEIGHT = 204.0


def draw(found: Threshold, width: int) -> Html:
    """Points with their 95 % intervals; the stretch in which the threshold lies is shaded."""
    values = [point.value for point in found.points]
    gutter, bottom = 46.0, HEIGHT - 54
    spread = min(values, default=0) > 0 and max(values) / min(values) > 20
    x: Log | Linear = log_for(values, gutter, width - 16.0)
    if not spread:
        x = Linear(min(values, default=0.0), max(values, default=1.0) or 1.0, gutter + 8, width - 24.0)
    y = Linear(0, 1, bottom, 16)
    parts = [line(gutter, y.at(share), width - 8, y.at(share), "grid") for share in (0.5, 1)]
    parts += [text(gutter - 6, y.at(share) + 4, f"{share:.0%}", "tick", "end") for share in (0, 0.5, 1)]
    parts.append(text(0, 10, "of the runs broke", "small"))
    if found.low is not None and found.high is not None:
        left, right = x.at(found.low), x.at(found.high)
        parts.append(box(left, 16, max(2.0, right - left), bottom - 16, "shade"))
    for point in found.points:
        parts.append(_point(point, x, y))
    parts.append(line(gutter, bottom, width - 8, bottom, "axis"))
    taken = [0.0, 0.0]
    for point in sorted(found.points, key=lambda point: point.value):
        left = min(max(x.at(point.value) - room(point.text, 10.5) / 2, 0.0), width - room(point.text, 10.5))
        row = next((row for row, end in enumerate(taken) if left >= end), None)
        if row is not None:
            parts.append(text(left, bottom + 15 + 13 * row, point.text, "tick"))
            taken[row] = left + room(point.text, 10.5) + 8
    parts.append(text(width - 8, bottom + 46, f"{found.parameter}, the values that were tried", "small", "end"))
    return sheet(width, HEIGHT, found.text, *parts)


def _point(point: Point, x: Log | Linear, y: Linear) -> Html:
    at, share = x.at(point.value), point.broke / max(1, point.tries)
    if not point.tries:
        return tag("g", text(at, y.at(0.5) + 5, "?", "undecided", "middle"), tag("title", f"{point.text}: not known"))
    said = f"{point.text}: {point.broke} of {point.tries} broke"
    parts = [line(at, y.at(point.interval[0]), at, y.at(point.interval[1]), "whisker")] if point.interval else []
    if share > 0:
        d = f"M{at - 4:.1f} {y.at(share) - 4:.1f}l8 8m0 -8l-8 8"
        parts.append(tag("path", d=d, class_="bad"))
    else:
        parts.append(tag("circle", cx=float(at), cy=float(y.at(share)), r=4.0, class_="ok"))
    return tag("g", *parts, tag("title", said))
