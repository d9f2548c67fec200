"""Guest time against host time: two bars on one scale."""

from __future__ import annotations

from stormcell.judge.wording import seconds as duration
from stormcell.report.figures import box, sheet, text
from stormcell.report.markup import Html

BAR, GAP = 16.0, 8.0


def draw(guest: float, host: float, width: int) -> Html:
    """The longer one fills the width; how many of the one go into one of the other stands behind the shorter one."""
    gutter = 86.0
    room = width - gutter - 150.0
    longest = max(guest, host, 1e-9)
    parts: list[Html] = []
    for row, (name, value, style) in enumerate((("guest time*", guest, "guest"), ("host time", host, "host"))):
        y = 2 + row * (BAR + GAP)
        long = max(1.5, room * value / longest)
        parts.append(text(0, y + 12, name, "lane-title"))
        parts.append(box(gutter, y, long, BAR, f"clock-{style}"))
        said = f"{duration(value)}*" if style == "guest" else duration(value)
        parts.append(text(gutter + long + 6, y + 12, said, "small"))
    said = f"{duration(guest)} of guest time in {duration(host)} of the host's: {guest / max(host, 1e-9):.3g} to 1"
    return sheet(width, 2 * (BAR + GAP), said, *parts)
