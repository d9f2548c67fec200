"""`stormcell faults`: the catalogue, from the code."""

from __future__ import annotations

from typing import Any

import click

from stormcell.cli.output import emit_json, json_flag


@click.command()
@click.argument("kind", required=False)
@json_flag
def faults(kind: str | None, as_json: bool) -> None:
    """List the faults, or describe one: parameters, what it needs, what proves it."""
    from stormcell.faults import CATALOGUE
    from stormcell.spec.errors import SpecError
    from stormcell.spec.value import nearest

    if kind is not None and kind not in CATALOGUE:
        raise SpecError(f"there is no fault '{kind}'; {nearest(kind, CATALOGUE)}", remedy="see `stormcell faults`")
    chosen = [CATALOGUE[kind]] if kind else list(CATALOGUE.values())
    if as_json:
        described = [_describe(fault) for fault in chosen]
        emit_json(described[0] if kind else described)
    elif kind:
        _show_one(chosen[0])
    else:
        _show_all(chosen)


def _describe(fault: Any) -> dict[str, Any]:
    return {
        "kind": fault.kind,
        "summary": (fault.__doc__ or "").strip().splitlines()[0],
        "needs": fault.needs.model_dump(mode="json"),
        "counts": fault.counts,
        "proves": fault.proves,
        "available": not fault.unavailable,
        "unavailable": fault.unavailable,
        "carried_out_by": "host" if fault.on_machine else "guest",
        "example": fault.example,
        "parameters": fault.model_json_schema(),
    }


def _show_all(faults: list[Any]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from stormcell.cli.screen import Screen

    table = Table(box=None, pad_edge=False)
    for heading in ("kind", "what happens", "what proves it"):
        table.add_column(heading, no_wrap=heading == "kind")
    family = faults[0].kind.partition(".")[0]
    for fault in faults:
        if (new := fault.kind.partition(".")[0]) != family:
            family = new
            table.add_row()
        proof = f"[yellow]unavailable:[/yellow] {escape(fault.unavailable)}" if fault.unavailable else fault.proves
        table.add_row(fault.kind, (fault.__doc__ or "").strip().splitlines()[0], proof)
    Screen(piped=None).print(table)


def _show_one(fault: Any) -> None:
    from rich.markup import escape
    from rich.table import Table

    from stormcell.cli.screen import Screen
    from stormcell.faults import parse
    from stormcell.faults.docs import parameters

    console = Screen(piped=None)
    console.print(f"[bold]{fault.kind}[/bold]  {escape(fault.__doc__ or '')}")
    if fault.unavailable:
        console.print(f"\n[yellow]unavailable[/yellow]  {escape(fault.unavailable)}")
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("parameter", "written as", "default", "meaning"):
        table.add_column(heading)
    for row in parameters(fault):
        table.add_row(*(escape(cell.replace("`", "")) for cell in row))
    console.print(table)
    console.print(f"\nproof    {escape(fault.proves)}")
    console.print(f"counts   {escape(fault.counts)}")
    needs = [f"{what} {', '.join(items)}" for what, items in fault.needs if items]
    console.print(f"needs    {escape('; '.join(needs) or 'nothing beyond the base guest')}")
    for sentence in parse(fault.example).cannot_know():
        console.print(f"cannot know  {escape(sentence)}")
