"""SVG, drawn for a wide and for a narrow page; style.css shows one of the two."""

from __future__ import annotations

from collections.abc import Callable

from stormcell.report.markup import Html, tag

WIDE, NARROW = 1040, 340


def both(draw: Callable[[int], Html]) -> Html:
    """The same figure twice."""
    return tag(
        "div",
        tag("div", draw(WIDE), class_="wide"),
        tag("div", draw(NARROW), class_="narrow"),
        class_="plot",
    )


def sheet(width: float, height: float, label: str, *parts: Html) -> Html:
    """The paper; `label` is what a screen reader says."""
    return tag(
        "svg",
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=label,
        class_="figure",
    )


def text(x: float, y: float, said: str, class_: str = "", anchor: str = "start") -> Html:
    """One line of text."""
    return tag("text", said, x=float(x), y=float(y), class_=class_ or None, text_anchor=anchor)


def line(x1: float, y1: float, x2: float, y2: float, class_: str) -> Html:
    """A straight line."""
    return tag("line", x1=float(x1), y1=float(y1), x2=float(x2), y2=float(y2), class_=class_)


def box(x: float, y: float, width: float, height: float, class_: str, *inside: Html, opacity: float = 1.0) -> Html:
    """A rectangle with what it says when pointed at."""
    told = tag(
        "rect",
        x=float(x),
        y=float(y),
        width=max(0.0, float(width)),
        height=float(height),
        class_=class_,
        opacity=None if opacity >= 1 else float(opacity),
    )
    return tag("g", told, *inside) if inside else told


def relation(said: str) -> str:
    """Bounds with the signs of mathematics."""
    return said.replace("<=", "≤").replace(">=", "≥").replace("==", "=").replace("!=", "≠")


def room(said: str, size: float = 11.0) -> float:
    """About how wide a text becomes."""
    return len(said) * size * 0.56


def fitted(said: str, width: float, size: float = 11.0) -> str:
    """As much of it as there is room for; nothing when that is next to nothing."""
    most = int(width / (size * 0.56))
    if len(said) <= most:
        return said
    return f"{said[: most - 1]}…" if most >= 4 else ""
