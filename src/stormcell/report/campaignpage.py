"""A campaign on the page: verdict first, then the matrix or the threshold, then what makes a difference."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stormcell.report.compare import Cell, CellNumber, Matrix, Threshold
from stormcell.report.evidence import Why
from stormcell.report.figures import both, relation, threshold
from stormcell.report.icons import MEANING, WORDS, badge, icon
from stormcell.report.markup import Child, Html, joined, tag
from stormcell.report.model import ORDER, Brief, Campaign
from stormcell.report.runpage import PHASES, run_sections
from stormcell.report.tables import comparison_part, scroll
from stormcell.report.words import NOTHING, between

MOST_LINES = 400


def campaign_section(campaign: Campaign, number: int, only: bool) -> list[Html]:
    """Its card, and those of its runs that are shown in full."""
    name = f"c{number}"
    known = campaign.verdict if campaign.verdict in MEANING else "unknown"
    first, *more = campaign.reasons or (Why("", ""),)
    card = tag(
        "section",
        tag(
            "div",
            tag("p", badge(known, big=True), tag("span", _counted(campaign.lines), class_="meaning")),
            tag("h1" if only else "h2", campaign.name),
            tag("p", campaign.question, class_="question") if campaign.question else None,
            tag("p", first.text, " ", tag("code", first.code), class_="reason"),
            tag("ul", [tag("li", why.text, " ", tag("code", why.code)) for why in more], class_="reasons")
            if more
            else None,
            class_=f"verdict v-{known}",
        ),
        _part(threshold_part(campaign.threshold, first.text)) if campaign.threshold else None,
        _part(matrix_part(campaign.matrix, name)) if campaign.matrix else None,
        _part(comparison_part(campaign.comparison)) if campaign.comparison else None,
        _part([tag("h3", "Numbers over all runs"), _numbers(campaign.numbers)]) if campaign.numbers else None,
        _part([tag("h3", "What this campaign cannot know"), _limits(campaign)]) if campaign.cannot_know else None,
        _part([_lines(campaign.lines), tag("p", "Folder: ", tag("code", campaign.folder), class_="small")]),
        class_="run",
        id=name,
    )
    shown = [run_sections(run, f"{name}-run-{place}", False) for place, run in enumerate(campaign.runs, 1)]
    said = f"{campaign.name}: {len(shown)} of {len(campaign.lines)} runs in full, the worst of each cell"
    return [card, tag("p", said, class_="divider"), joined(shown)] if shown else [card]


def _part(inside: Child) -> Html:
    return tag("div", inside, class_="part")


def _counted(lines: Iterable[Brief]) -> str:
    count = Counter(line.verdict for line in lines)
    names = [*ORDER, "lost", "unfinished"]
    return f"{sum(count.values()):,} runs: " + ", ".join(f"{count[name]:,} {name}" for name in names if count[name])


def matrix_part(matrix: Matrix, name: str) -> Child:
    """Fault by parameter: the share that survived, with its interval and how it was made up."""
    corner = f"{matrix.rows_are} \\ {matrix.columns_are}" if matrix.columns_are else matrix.rows_are
    heads = [tag("th", relation(corner), scope="col")]
    heads += [tag("th", relation(column), scope="col") for column in matrix.columns]
    rows = [
        tag("tr", tag("th", relation(row.name), scope="row"), [_matrix_cell(cell, name) for cell in row.cells])
        for row in matrix.rows
    ]
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="matrix")
    return [tag("h3", matrix.title), scroll(table, matrix.title)]


def _matrix_cell(cell: Cell | None, name: str) -> Html:
    if cell is None:
        return tag("td", NOTHING, class_="empty")
    verdict = _whole(cell)
    share = f"{cell.survived} of {cell.judged} survived" if cell.judged else "nothing was learnt"
    lost = [f"{count} {name}" for count, name in ((cell.void, "void"), (cell.unknown, "unknown")) if count]
    told = tag("a", share, href=f"#{name}-run-{cell.page}") if cell.page else tag("b", share)
    return tag(
        "td",
        tag("span", icon(verdict, verdict), " ", told, class_="share-of"),
        tag("span", [_small(verdict) for verdict in sorted(cell.runs)], class_="marks") if len(cell.runs) > 1 else None,
        tag("small", f"95 %: {between(cell.interval)}") if cell.interval else None,
        tag("small", ", ".join(lost)) if lost else None,
        tag("small", cell.note, class_="note-of") if cell.note else None,
        class_=f"cell v-{verdict}",
    )


def _small(verdict: str) -> Html:
    return icon(verdict if verdict in WORDS else "unknown", verdict)


def _whole(cell: Cell) -> str:
    """One verdict for all runs of a cell: the one that asks for attention."""
    for verdict in ("failed", "unknown", "void", "survived"):
        if getattr(cell, verdict):
            return verdict
    return "void"


def threshold_part(found: Threshold, told: str = "") -> Child:
    """Where it begins to break, as a curve; as a sentence, too, unless that was told already."""
    return [
        tag("h3", found.title),
        tag("p", found.text, class_="finding") if found.text != told else None,
        tag("figure", tag("figcaption", found.criterion), both(lambda width: threshold.draw(found, width))),
        tag("ul", [tag("li", said) for said in found.cautions], class_="notes") if found.cautions else None,
    ]


def _numbers(numbers: tuple[CellNumber, ...]) -> Html:
    """Under the fault in full view; before it and after it behind a fold."""
    under = [item for item in numbers if item.phase == "under"]
    rest = [item for item in numbers if item.phase != "under"]
    more = tag("details", tag("summary", "Before the fault, and recovery"), _table(rest, "Before and after"))
    return tag("div", _table(under, "Numbers under the fault") if under else None, more if rest else None)


def _table(numbers: Iterable[CellNumber], label: str) -> Html:
    heads = [tag("th", head, scope="col") for head in ("cell", "metric", "value", "95 %", "rests on")]
    rows, last = [], ""
    for item in numbers:
        again = item.cell == last
        last = item.cell
        rest = f"{item.samples:,} samples of {item.runs:,} runs"
        rows.append(
            tag(
                "tr",
                tag("th", None if again else relation(item.cell), scope="row"),
                tag("td", f"{item.probe} {item.metric}", tag("small", PHASES.get(item.phase, item.phase))),
                tag("td", tag("b", item.text)),
                tag("td", item.between or NOTHING),
                tag("td", rest, tag("small", item.note, class_="wrapped") if item.note else None),
                class_="again" if again else None,
            )
        )
    return scroll(tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="metrics"), label)


def _limits(campaign: Campaign) -> Html:
    return tag("div", tag("ul", [tag("li", relation(said)) for said in campaign.cannot_know]), class_="limits")


def _lines(lines: tuple[Brief, ...]) -> Html:
    heads = [tag("th", head, scope="col") for head in ("cell", "run", "verdict", "why", "took")]
    rows = [
        tag(
            "tr",
            tag("th", relation(line.cell), scope="row"),
            tag("td", f"{line.repeat}", tag("small", f"seed {line.seed}")),
            tag("td", badge(line.verdict)),
            tag("td", relation(line.why), class_="wrapped"),
            tag("td", f"{line.seconds:.1f} s" if line.seconds is not None else NOTHING),
        )
        for line in lines[:MOST_LINES]
    ]
    more = f", the first {MOST_LINES:,}" if len(lines) > MOST_LINES else ""
    table = tag("table", tag("thead", tag("tr", heads)), tag("tbody", rows), class_="metrics")
    return tag("details", tag("summary", f"All {len(lines):,} runs{more}"), scroll(table, "All runs"))
