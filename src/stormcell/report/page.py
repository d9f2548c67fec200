"""The model as one HTML page that needs nothing but itself."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from stormcell.report.campaignpage import campaign_section
from stormcell.report.icons import MEANING, badge, icon
from stormcell.report.markup import Html, joined, raw_style, tag
from stormcell.report.model import ORDER, Report
from stormcell.report.runpage import run_sections
from stormcell.report.summary import table_of_runs

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Nothing is loaded and nothing runs, whatever a guest managed to write into it."""


def page(report: Report) -> str:
    """A whole HTML file; well-formed XML but for its first line."""
    body = tag(
        "body",
        tag("a", "Skip to the experiments", href="#runs", class_="skip"),
        _head(report),
        tag(
            "main",
            [campaign_section(campaign, number, _only(report)) for number, campaign in enumerate(report.campaigns, 1)],
            table_of_runs(report.runs) if len(report.runs) > 1 else None,
            _problems(report),
            tag("div", _runs(report), id="runs"),
        ),
        _foot(report),
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        tag("meta", name="generator", content=f"stormcell {report.version}"),
        tag("title", f"{_headline(report)} - {report.title}"),
        raw_style(Path(__file__).with_name("style.css").read_text()),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _only(report: Report) -> bool:
    """Whether one run, or one campaign, is all there is: its name is then the page's heading."""
    return len(report.runs) + len(report.campaigns) == 1 and not report.problems


def _runs(report: Report) -> list[list[Html]]:
    return [run_sections(run, f"run-{number}", _only(report)) for number, run in enumerate(report.runs, 1)]


def _verdicts(report: Report) -> list[str]:
    return [*(campaign.verdict for campaign in report.campaigns), *(run.verdict for run in report.runs)]


def _headline(report: Report) -> str:
    """The verdict in words: of one its own, of several the worst first."""
    if _only(report):
        name = report.runs[0].name if report.runs else report.campaigns[0].name
        return f"{name}: {_verdicts(report)[0]}"
    verdicts = _verdicts(report)
    count, total = Counter(verdicts), len(verdicts)
    what = "campaigns" if not report.runs else "experiments" if not report.campaigns else "experiments and campaigns"
    if total and count["survived"] == total and not report.problems:
        return f"All {total} {what} survived"
    said = [f"{count[verdict]} {verdict}" for verdict in ORDER if count[verdict]]
    said += [f"{len(report.problems)} could not be run or read"] * bool(report.problems)
    return ", ".join(said) or "Nothing was run"


def _head(report: Report) -> Html:
    only = _only(report)
    surprises = sum(bool(run.surprise) for run in report.runs)
    return tag(
        "header",
        tag(
            "p",
            tag("span", "Stormcell", class_="brand"),
            tag("span", report.title, class_="what"),
            tag("time", report.made.replace("T", " ").replace("Z", " UTC"), datetime=report.made),
            class_="masthead",
        ),
        None if only else _counts(report),
        None if only else tag("h1", _headline(report)),
        _note(f"{surprises} came out otherwise than predicted") if surprises and not only else None,
        _note("It was interrupted: what had not ended is not in this report.") if report.interrupted else None,
    )


def _note(said: str) -> Html:
    return tag("p", icon("surprise"), " ", said, class_="note")


def _counts(report: Report) -> Html:
    """One bar, as long as there are runs of each verdict."""
    count = Counter(_verdicts(report))
    parts = [
        tag(
            "li",
            badge(verdict),
            tag("b", str(count[verdict])),
            class_=f"share v-{verdict}",
            style=f"flex-grow:{count[verdict]}",
            title=MEANING[verdict],
        )
        for verdict in ORDER
        if count[verdict]
    ]
    return tag("ul", parts, class_="shares") if parts else joined()


def _problems(report: Report) -> Html | None:
    if not report.problems:
        return None
    rows = [tag("li", tag("b", problem.what or problem.error), tag("pre", problem.text)) for problem in report.problems]
    return tag("section", tag("h2", "Could not be run or read"), tag("ul", rows, class_="problems"), class_="card")


def _foot(report: Report) -> Html:
    meanings = [tag("li", badge(verdict), " ", MEANING[verdict]) for verdict in ORDER]
    return tag(
        "footer",
        tag("ul", meanings, class_="legend"),
        tag(
            "p",
            f"stormcell {report.version} made this page from saved events; it loads nothing and needs no network. "
            "The same findings for programs are beside it: report.json and junit.xml.",
        ),
    )
