"""One experiment on the page: verdict and reason first, then the evidence, then what it cannot tell."""

from __future__ import annotations

from stormcell.judge.wording import seconds as duration
from stormcell.report.chain import TITLES
from stormcell.report.evidence import Measured, Spread, Timeline, Why
from stormcell.report.figures import both, relation, spread, timeline
from stormcell.report.icons import MEANING, badge, icon
from stormcell.report.markup import Child, Html, tag
from stormcell.report.model import Branch, Run
from stormcell.report.receipt import receipts
from stormcell.report.sealedpage import sealed_part, star, timed
from stormcell.report.tables import comparison_part, scroll
from stormcell.report.words import NOTHING, between

PHASES = {"before": "before", "under": "under the fault", "recovery": "after"}
_SAID = {"yes": "yes", "no": "no", "unknown": "not known", "none": "not asked for"}


def run_sections(run: Run, name: str, only: bool) -> list[Html]:
    """The whole card, with `name` to link to, and one for each branch. A single run's name is the page's heading."""
    return [
        _section(run, name, only),
        *(_section(branch.run, f"{name}-{place}", False) for place, branch in enumerate(run.branches, 1)),
    ]


def _section(run: Run, name: str, only: bool) -> Html:
    first, *more = run.reasons or (Why("", ""),)
    heading = "h1" if only else "h2"
    return tag(
        "section",
        tag(
            "div",
            tag("p", badge(run.verdict, big=True), tag("span", _meaning(run), class_="meaning")),
            tag(heading, run.name),
            tag("p", run.question, class_="question") if run.question else None,
            tag("p", relation(timed(run, first.text)), " ", tag("code", first.code), class_="reason"),
            tag(
                "ul",
                [tag("li", relation(timed(run, why.text)), " ", tag("code", why.code)) for why in more],
                class_="reasons",
            )
            if more
            else None,
            _prediction(run),
            star(run),
            class_=f"verdict v-{run.verdict if run.verdict in MEANING else 'unknown'}",
        ),
        _chain(run) if not run.branches else None,
        _part("Sealed: the same bits every time", sealed_part(run.sealed), True) if run.sealed else None,
        _part("Branches of one instant", _branches(run.branches, name), bool(run.branches)),
        _comparison(run),
        _part("Until the fork" if run.branches else "Timeline", _timeline(run.timeline), _drawn(run.timeline)),
        _part("Latencies before, under and after", [_spread(item) for item in run.spreads], bool(run.spreads)),
        _part("What was measured", _table(run), bool(run.measured)),
        _part("Receipts: what the kernel said", receipts(run), bool(run.proofs)),
        _part("What this run cannot know", _limits(run), True),
        _facts(run),
        class_="run",
        id=name,
    )


def _part(title: str, inside: Child, there: bool) -> Html | None:
    return tag("div", tag("h3", title), inside, class_="part") if there else None


def _branches(branches: tuple[Branch, ...], name: str) -> Html:
    """The differential verdict: who differs from the control, and how each came out."""
    said = {
        True: [icon("no"), " differs"],
        False: [icon("yes"), " not more than chance"],
        None: [icon("none"), " not said"],
    }
    heads = [tag("th", head, scope="col") for head in ("branch", "verdict", "from the control", "why", "predicted")]
    rows = [
        tag(
            "tr",
            tag("th", tag("a", branch.name, href=f"#{name}-{place}"), scope="row"),
            tag("td", badge(branch.run.verdict)),
            tag("td", "is the control: no fault" if branch.control else said[branch.deviates]),
            tag("td", relation(branch.run.reasons[0].text) if branch.run.reasons else None, class_="wrapped"),
            tag("td", branch.run.predicted or NOTHING, tag("small", "surprise") if branch.run.surprise else None),
        )
        for place, branch in enumerate(branches, 1)
    ]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="metrics")
    return scroll(table, "Branches")


def _comparison(run: Run) -> Html | None:
    return tag("div", comparison_part(run.comparison), class_="part") if run.comparison else None


def _drawn(found: Timeline | None) -> bool:
    return found is not None and any(lane.samples for lane in found.probes)


def _meaning(run: Run) -> str:
    if run.verdict == "survived" and any(link.name == "in force" and link.state == "none" for link in run.chain):
        return "every bound held; no fault was done"
    return MEANING.get(run.verdict, "")


def _prediction(run: Run) -> Html | None:
    if run.branches:
        return None
    if not run.predicted:
        return tag("p", "Nothing was predicted.", class_="prediction quiet")
    mark: Child = None
    if run.surprise is not None:
        mark = (
            tag("strong", icon("surprise"), " surprise: it came out otherwise")
            if run.surprise
            else tag("span", icon("yes"), " as predicted", class_="quiet")
        )
    return tag("p", "Predicted before the run: ", tag("b", run.predicted), " ", mark, class_="prediction")


def _chain(run: Run) -> Html:
    """The six links in a row; the first that is broken is where the verdict comes from."""
    links = [
        tag(
            "li",
            icon(link.state, _SAID[link.state]),
            tag("b", TITLES.get(link.name, link.name)),
            tag("span", timed(run, link.text)),
            class_=f"link s-{link.state}",
        )
        for link in run.chain
    ]
    return tag("ol", links, class_="chain")


def _timeline(drawn: Timeline | None) -> Child:
    if drawn is None:
        return None
    keys = [
        tag("li", tag("i", class_="key k-force"), "fault in force"),
        tag("li", tag("i", class_="key k-ok"), "attempt succeeded"),
        tag("li", tag("i", class_="key k-bad"), "failed (at the top: no answer)"),
        tag("li", tag("i", class_="key k-bound"), "bound of the hypothesis"),
    ]
    cut = f"The first {duration(drawn.cut)} (setup) are not drawn." if drawn.cut else None
    return [
        both(lambda width: timeline.draw(drawn, width)),
        tag("ul", keys, class_="keys"),
        tag("p", cut, class_="small") if cut else None,
    ]


def _spread(item: Spread) -> Html:
    title = f"{item.probe}, seen from the {item.vantage}"
    return tag("figure", tag("figcaption", title), both(lambda width: spread.draw(item, width)))


def _table(run: Run) -> Html:
    """A row for each metric of a probe, a column for each phase."""
    rows: dict[tuple[str, str, str], dict[str, Measured]] = {}
    for item in run.measured:
        rows.setdefault((item.probe, item.vantage, item.metric), {})[item.phase] = item
    body, last = [], ""
    for (probe, vantage, metric), cells in rows.items():
        again = probe == last
        last = probe
        name = tag("th", None if again else [probe, tag("small", f"from the {vantage}")], scope="row")
        body.append(tag("tr", name, tag("td", metric), [_cell(run, cells.get(phase)) for phase in PHASES],
                        class_="again" if again else None))  # fmt: skip
    heads = [tag("th", said, scope="col") for said in ("probe", "metric", *PHASES.values())]
    return scroll(
        tag("table", tag("thead", tag("tr", heads)), tag("tbody", body), class_="metrics"), "What was measured"
    )


def _cell(run: Run, item: Measured | None) -> Html:
    if item is None:
        return tag("td", NOTHING, class_="empty")
    after = f", {duration(item.after)} after the undo" if item.after is not None else ""
    wanted = relation(f"wanted {item.wanted}") if item.wanted else None
    return tag(
        "td",
        tag("span", icon("yes" if item.holds else "no", "held" if item.holds else "broke"), " ")
        if item.holds is not None
        else None,
        tag("b", timed(run, item.text)),
        tag("small", wanted, " · " if wanted else "", timed(run, f"n = {item.samples:,}{after}")),
        class_="broke" if item.holds is False else None,
    )


def _limits(run: Run) -> Html:
    rates = [
        f"'{item.probe}' {PHASES.get(row.phase, row.phase)}: {row.succeeded:,} of {row.attempts:,} succeeded, "
        f"95 % interval {between(row.interval)}"
        for item in run.spreads
        for row in item.rows
        if row.interval
    ]
    return tag(
        "div",
        tag("ul", [tag("li", timed(run, said)) for said in run.cannot_know]),
        tag("p", "How sure the success rates are: ", "; ".join(rates), ".", class_="small") if rates else None,
        class_="limits",
    )


def _facts(run: Run) -> Html:
    told = [*run.facts]
    if run.began:
        told.insert(0, ("began", run.began.replace("T", " ").replace("Z", " UTC")))
    if run.source:
        told.insert(0, ("file", run.source))
    if run.folder:
        told.append(("folder", run.folder))
    rows = [tag("div", tag("dt", name), tag("dd", said)) for name, said in told]
    again = tag("p", "Judge it again: ", tag("code", f"stormcell judge {run.folder}"), class_="small")
    return tag("div", tag("dl", rows, class_="facts"), again if run.folder else None, class_="part")
