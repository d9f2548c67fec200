"""Many runs at once: the table of verdicts, a campaign's matrix, a threshold, branches against their control."""

from __future__ import annotations

from collections.abc import Sequence

from stormcell.judge.wording import percent
from stormcell.report.chain import NAMES, TITLES
from stormcell.report.compare import Cell, Comparison, Difference, Matrix, Threshold
from stormcell.report.figures import both, relation, threshold
from stormcell.report.icons import badge, icon
from stormcell.report.markup import Child, Html, tag
from stormcell.report.model import Run
from stormcell.report.runpage import scroll
from stormcell.report.words import NOTHING, between


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


def matrix_section(matrix: Matrix, number: int) -> Html:
    """Fault by parameter: the share that survived, with its interval and how it was made up."""
    heads = [tag("th", f"{matrix.rows_are} \\ {matrix.columns_are}", scope="col")]
    heads += [tag("th", column, scope="col") for column in matrix.columns]
    rows = [
        tag("tr", tag("th", row.name, scope="row"), [_matrix_cell(cell) for cell in row.cells]) for row in matrix.rows
    ]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="matrix")
    return tag("section", tag("h2", matrix.title), scroll(table, matrix.title), class_="card", id=f"matrix-{number}")


def _matrix_cell(cell: Cell | None) -> Html:
    if cell is None:
        return tag("td", NOTHING, class_="empty")
    verdict = _whole(cell)
    share = f"{cell.survived} of {cell.judged} survived" if cell.judged else "nothing was learnt"
    lost = [f"{count} {name}" for count, name in ((cell.void, "void"), (cell.unknown, "unknown")) if count]
    return tag(
        "td",
        icon(verdict, verdict),
        tag("b", share),
        tag("span", class_="meter", style=f"--share:{cell.survived / cell.judged * 100:.0f}%") if cell.judged else None,
        tag("small", f"95 %: {between(cell.interval)}") if cell.interval else None,
        tag("small", ", ".join(lost)) if lost else None,
        tag("small", cell.note) if cell.note else None,
        class_=f"cell v-{verdict}",
    )


def _whole(cell: Cell) -> str:
    """One verdict for all runs of a cell: the one that asks for attention."""
    for verdict in ("failed", "unknown", "survived"):
        if getattr(cell, verdict):
            return verdict
    return "void"


def threshold_section(found: Threshold) -> Html:
    """Where it begins to break, as a sentence and as a curve."""
    return tag(
        "section",
        tag("h2", found.title),
        tag("p", found.text, class_="reason"),
        tag("figure", tag("figcaption", found.criterion), both(lambda width: threshold.draw(found, width))),
        class_="card",
    )


def comparison_section(found: Comparison) -> Html:
    """Each branch against the control that was forked from the same instant."""
    heads = ("branch", "fault", "metric", "control", "branch measured", "difference (95 %)", "p", "deviates")
    body = [_difference(row) for row in found.rows]
    table = tag("table", tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])), tag("tbody", body))
    return tag(
        "section",
        tag("h2", found.title),
        tag("p", f"Forked at: {found.moment}. Control: ", badge(found.control)),
        scroll(table, found.title),
        tag("p", found.test, class_="small"),
        class_="card",
    )


def _difference(row: Difference) -> Html:
    deviates: Child = [icon("unknown"), " cannot be said"]
    if row.deviates is not None:
        deviates = [icon("no"), tag("b", " deviates")] if row.deviates else [icon("yes"), " as the control"]
    between_ = f" ({row.low:+.4g} to {row.high:+.4g})" if row.low is not None and row.high is not None else ""
    difference = NOTHING if row.difference is None else f"{row.difference:+.4g}{between_} {row.unit}".strip()
    return tag(
        "tr",
        tag("th", row.branch, " ", badge(row.verdict), scope="row"),
        tag("td", row.fault),
        tag("td", row.metric, tag("small", row.samples)),
        tag("td", row.control),
        tag("td", row.measured),
        tag("td", difference),
        tag("td", NOTHING if row.p is None else ("< 0.001" if row.p < 0.001 else f"{row.p:.3f}")),
        tag("td", deviates, tag("small", row.note) if row.note else None),
    )


def share(good: int, total: int) -> str:
    """A share of few, with its counts."""
    return f"{percent(good / total)} ({good} of {total})" if total else "nothing"
