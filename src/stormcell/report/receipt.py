"""Receipts on the page: what moved in the kernel, how it was undone, and all of it as data."""

from __future__ import annotations

from stormcell.report.evidence import Moved, Proof
from stormcell.report.icons import icon
from stormcell.report.markup import Html, tag
from stormcell.report.model import Run
from stormcell.report.sealedpage import timed
from stormcell.report.words import NOTHING, plain

SHOWN = 8
"""Numbers that are told without unfolding."""
COLUMNS = ("before the act", "just after it", "before the undo", "after the undo")


def receipts(run: Run) -> Html:
    """One card for each fault."""
    return tag("div", [_receipt(run, proof) for proof in run.proofs], class_="receipts")


def _receipt(run: Run, proof: Proof) -> Html:
    name = proof.kind if proof.fault == "fault" else f"{proof.fault}: {proof.kind}"
    acted = "acted: not known" if proof.acted is None else f"{proof.acted:,} {proof.counts}"
    return tag(
        "article",
        tag("h4", name),
        tag("p", [tag("span", f"{key} {value}") for key, value in proof.params], class_="params"),
        tag(
            "ul",
            _fact(proof.in_force, "in force", "not in force", "in force: not known"),
            _fact(None if proof.acted is None else proof.acted > 0, acted, f"touched nothing: {acted}", acted),
            _fact(proof.clean, "nothing left after the undo", "not clean after the undo", "after the undo: not known"),
            class_="proofs",
        ),
        _moved(proof),
        tag("ul", [tag("li", timed(run, note)) for note in proof.notes], class_="notes") if proof.notes else None,
        tag("p", "Undone by"),
        tag("pre", "\n".join(proof.undo)) if proof.undo else tag("p", "nothing to undo", class_="quiet"),
        tag(
            "details",
            tag("summary", "The whole receipt as JSON"),
            tag("p", f"Its first {len(proof.raw):,} of {proof.raw_bytes:,} characters; all of it is receipts.json "
                "in the run's folder.", class_="small")
            if proof.raw_bytes > len(proof.raw)
            else None,
            tag("pre", proof.raw, class_="raw", tabindex=0),
        ),
        class_="receipt",
    )  # fmt: skip


def _fact(state: bool | None, yes: str, no: str, unknown: str) -> Html:
    name, said = {True: ("yes", yes), False: ("no", no), None: ("unknown", unknown)}[state]
    return tag("li", icon(name), " ", said)


def _moved(proof: Proof) -> Html | None:
    if not proof.moved:
        return None
    cycles = f" (the first act and the last undo of {proof.cycles:,} cycles)" if proof.cycles > 1 else ""
    first, rest = proof.moved[:SHOWN], proof.moved[SHOWN:]
    left_out = f" (of {proof.moved_in_all:,})" if proof.moved_in_all > len(proof.moved) else ""
    return tag(
        "div",
        _numbers(first, f"The kernel's numbers that moved{cycles}", proof.kind),
        tag(
            "details",
            tag("summary", f"{len(rest)} more numbers{left_out}"),
            _numbers(rest, "What else moved", proof.kind),
        )
        if rest
        else None,
    )


def _numbers(moved: tuple[Moved, ...], caption: str, kind: str) -> Html:
    heads = [tag("th", said, scope="col") for said in ("", *COLUMNS)]
    rows = tag("tbody", [_row(item) for item in moved])
    table = tag("table", tag("caption", caption), tag("thead", tag("tr", heads)), rows, class_="numbers")
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"{caption}: {kind}")


def _row(item: Moved) -> Html:
    values = (item.before, item.during, item.after, item.undone)
    cells = []
    last: float | None = item.before
    for place, value in enumerate(values):
        moved = place > 0 and value != last
        cells.append(tag("td", plain(value) or NOTHING, class_="moved" if moved else None))
        last = value
    return tag("tr", tag("th", item.name, scope="row"), cells)
