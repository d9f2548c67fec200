"""Several experiments at once: the table of verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from stormcell.report.chain import NAMES, TITLES
from stormcell.report.figures import relation
from stormcell.report.icons import badge, icon
from stormcell.report.markup import Html, tag
from stormcell.report.model import Run
from stormcell.report.runpage import scroll
from stormcell.report.words import NOTHING


def table_of_runs(runs: Sequence[Run]) -> Html:
    """One row for each: verdict, reason, and the link of the chain that broke."""
    heads = ["verdict", "experiment", *(TITLES[name] for name in NAMES), "predicted"]
    rows = [
        tag(
            "tr",
            tag("td", badge(run.verdict)),
            tag(
                "th",
                tag("a", run.name, href=f"#run-{number}"),
                tag(
                    "small",
                    relation(run.reasons[0].text) if run.reasons and run.verdict != "survived" else run.question,
                ),
                scope="row",
            ),
            [
                tag("td", icon(link.state, f"{TITLES[link.name]}: {link.state}"), title=link.text, class_="link")
                for link in run.chain
            ],
            tag("td", run.predicted or NOTHING, tag("b", " surprise") if run.surprise else None),
        )
        for number, run in enumerate(runs, 1)
    ]
    table = tag("table", tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])), tag("tbody", rows))
    return tag("section", scroll(table, "Verdicts"), class_="card verdicts")
