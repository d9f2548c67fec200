"""Tables that several parts of the page have."""

from __future__ import annotations

from stormcell.report.compare import Comparison, Difference
from stormcell.report.figures import relation
from stormcell.report.icons import badge, icon
from stormcell.report.markup import Child, Html, tag
from stormcell.report.words import NOTHING


def scroll(inside: Html, label: str) -> Html:
    """Something wide that scrolls inside itself, also by keyboard."""
    return tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=label)


def comparison_part(found: Comparison) -> Child:
    """Each branch against the control that was forked from the same instant; or cells of a matrix."""
    heads = ("", "metric", "difference (95 %)", "differs", "measured", "compared with")
    body = [_difference(row) for row in found.rows]
    table = tag(
        "table",
        tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])),
        tag("tbody", body),
        class_="metrics",
    )
    return [
        tag("h3", found.title),
        tag("p", f"Forked from one instant: {found.moment}. The control, without a fault: ", badge(found.control))
        if found.moment
        else None,
        scroll(table, found.title),
        tag("p", found.test, class_="small"),
    ]


def _difference(row: Difference) -> Html:
    differs: Child = [icon("unknown"), " cannot be said"]
    if row.deviates is not None:
        differs = [icon("no"), tag("b", " yes")] if row.deviates else [icon("yes"), " not more than chance"]
    ends = f"{row.low:+.4g} to {row.high:+.4g} {row.unit}" if row.low is not None and row.high is not None else ""
    difference = NOTHING if row.difference is None else f"{row.difference:+.4g} {row.unit}".strip()
    p = "" if row.p is None else f"p {'< 0.001' if row.p < 0.001 else f'= {row.p:.3f}'}"
    return tag(
        "tr",
        tag("th", relation(row.branch), tag("small", badge(row.verdict), f" {row.fault}"), scope="row"),
        tag("td", row.metric, tag("small", row.samples)),
        tag("td", tag("b", difference), tag("small", ends) if ends else None),
        tag("td", differs, tag("small", row.note or p) if row.note or p else None),
        tag("td", row.measured),
        tag("td", relation(row.control), class_="wrapped"),
    )
