"""Small figures: verdicts by shape as well as by colour. Drawn, since a font may not have them."""

from __future__ import annotations

from stormcell.report.markup import Child, Html, tag

WORDS = {"survived": "survived", "failed": "failed", "void": "void", "unknown": "unknown"}
MEANING = {
    "survived": "every bound held under the fault and after it",
    "failed": "the hypothesis did not hold",
    "void": "nothing was learnt",
    "unknown": "the outcome was lost",
}
_STROKES = {
    "yes": "M4.6 8.4 7 10.8 11.6 5.6",
    "no": "M5.2 5.2 10.8 10.8M10.8 5.2 5.2 10.8",
    "void": "M4.1 11.9 11.9 4.1",
    "unknown": "M6 6.3C6 5 6.9 4.3 8 4.3s2 .7 2 1.9C10 7.6 8 7.7 8 9.3M8 11.4v.3",
    "none": "M5.4 8h5.2",
    "surprise": "M8 4.2v4.6M8 11.4v.3",
}
SHAPE = {"survived": "yes", "failed": "no"}


def icon(name: str, label: str = "") -> Html:
    """`survived`, `failed`, `void`, `unknown`, or a state: `yes`, `no`, `none`, `surprise`."""
    shape = SHAPE.get(name, name)
    ring = tag("circle", cx=8, cy=8, r=6.9) if shape != "none" else None
    return tag(
        "svg",
        tag("title", label) if label else None,
        ring,
        tag("path", d=_STROKES.get(shape, _STROKES["unknown"])),
        class_=f"icon is-{name}",
        viewBox="0 0 16 16",
        role="img" if label else None,
        aria_hidden=None if label else "true",
    )


def badge(verdict: str, *more: Child, big: bool = False) -> Html:
    """The verdict as a word with its shape."""
    known = verdict if verdict in WORDS else "unknown"
    return tag("span", icon(known), " ", verdict, *more, class_=f"badge v-{known}" + (" big" if big else ""))
