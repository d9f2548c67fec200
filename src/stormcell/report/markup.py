"""Markup that cannot be broken by what it holds: every text is escaped, every tag is closed.

The page is HTML that is well-formed XML as well, so that a test can parse it strictly.
"""

from __future__ import annotations

from collections.abc import Iterable

from stormcell.spec.text import printable

VOID = frozenset({"meta", "br", "hr", "col", "link", "img", "path", "line", "rect", "circle", "polyline", "use"})
"""Tags that are closed where they are opened."""
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


Child = Html | str | float | Iterable["Child"] | None
Attribute = str | float | bool | None


def escaped(text: object) -> Html:
    """For text and for quoted attributes. A NUL or a lone surrogate is no character of XML: `printable` names it."""
    return Html(printable(str(text)).translate(_ESCAPES))


def tag(_name: str, /, *children: Child, **attributes: Attribute) -> Html:
    """An element. `class_` is `class`, `stroke_width` is `stroke-width`; None and False leave an attribute out."""
    told = "".join(
        f' {_attribute(name)}="{escaped(_value(value))}"' for name, value in attributes.items() if _is(value)
    )
    inner = joined(*children)
    if _name in VOID:
        return Html(f"<{_name}{told}/>")
    return Html(f"<{_name}{told}>{inner}</{_name}>")


def joined(*children: Child) -> Html:
    """One after another; None is nothing."""
    return Html("".join(_text(child) for child in children))


def raw_style(css: str) -> Html:
    """A style sheet of ours. Raises ValueError for one that would have to be escaped."""
    if set(css) & set("<&"):
        raise ValueError("a style sheet holds neither < nor &")
    return Html(f"<style>{css}</style>")


def _text(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Html):
        return child
    if isinstance(child, str | float | int):
        return escaped(child)
    return joined(*child)


def _is(value: Attribute) -> bool:
    return value is not None and value is not False


def _value(value: Attribute) -> str:
    if value is True:
        return ""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _attribute(name: str) -> str:
    return "viewBox" if name == "viewBox" else name.rstrip("_").replace("_", "-")
