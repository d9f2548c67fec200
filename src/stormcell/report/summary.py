"""Several experiments at once: the table of verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stormcell.judge.wording import seconds as duration
from stormcell.report.chain import NAMES, TITLES
from stormcell.report.figures import relation
from stormcell.report.icons import badge, icon
from stormcell.report.markup import Html, tag
from stormcell.report.model import Run
from stormcell.report.sealedpage import star, timed
from stormcell.report.tables import scroll
from stormcell.report.words import NOTHING


def table_of_runs(runs: Sequence[Run]) -> Html:
    """One row for each: verdict, reason, and the link of the chain that broke."""
    heads = ["verdict", "experiment", *(TITLES[name] for name in NAMES), "predicted"]
    rows = [_row(run, name, branch) for run, name, branch in _listed(runs)]
    table = tag("table", tag("thead", tag("tr", [tag("th", head, scope="col") for head in heads])), tag("tbody", rows))
    sealed = next((star(run) for run in runs if run.sealed), None)
    return tag("section", scroll(table, "Verdicts"), sealed, class_="card verdicts")


def _listed(runs: Sequence[Run]) -> Iterator[tuple[Run, str, str]]:
    """Each run, followed by its branches: with where it stands on the page, and the branch's name."""
    for number, run in enumerate(runs, 1):
        yield run, f"run-{number}", ""
        for place, branch in enumerate(run.branches, 1):
            yield branch.run, f"run-{number}-{place}", branch.name


def _clocks(run: Run) -> str:
    """Of a sealed run."""
    found = run.sealed
    if found is None or found.guest_seconds is None or found.host_seconds is None:
        return ""
    return f" · sealed, {duration(found.guest_seconds)}* in {duration(found.host_seconds)}"


def _row(run: Run, name: str, branch: str) -> Html:
    told = relation(timed(run, run.reasons[0].text)) if run.reasons and run.verdict != "survived" else run.question
    links = [
        tag("td", icon(link.state, f"{TITLES[link.name]}: {link.state}"), title=timed(run, link.text), class_="link")
        for link in run.chain
    ]
    return tag(
        "tr",
        tag("td", badge(run.verdict)),
        tag("th", tag("a", branch or run.name, href=f"#{name}"), tag("small", told, _clocks(run)), scope="row"),
        links if not run.branches else tag("td", "branches, from one instant", colspan=len(NAMES), class_="link"),
        tag("td", run.predicted or NOTHING, tag("b", " surprise") if run.surprise else None),
        class_="branch" if branch else None,
    )
