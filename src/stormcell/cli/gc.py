"""`stormcell gc`: what a dead process left."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from stormcell.cli.output import emit_json, json_flag, say

if TYPE_CHECKING:
    from stormcell.sandbox.gc import Item


@click.command()
@click.option("--dry-run", is_flag=True, help="Show what would go; remove nothing.")
@json_flag
def gc(dry_run: bool, as_json: bool) -> None:
    """Find and remove what a dead process left: sandboxes, their machines, builds that never ended.

    What is in use stays: a sandbox whose owner lives, one from `sandbox create` within its ttl, a build under way.
    """
    from stormcell.sandbox.gc import collect
    from stormcell.spec.home import Home

    items = list(collect(Home.current(), dry_run=dry_run))
    if as_json:
        emit_json([item.as_dict() for item in items])
    elif not items:
        say("nothing was left")
    else:
        _table(items, dry_run)
    sys.exit(0 if dry_run or all(item.gone for item in items) else 3)


def _table(items: Sequence[Item], dry_run: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from stormcell.cli.screen import Screen

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("what", "why", "processes", "files"):
        table.add_column(heading, overflow="fold")
    for item in items:
        if item.evidence is None:
            processes = " ".join(f"{pid} lives" for pid in item.machines)
            files = f"{item.path} would go" if dry_run else f"{item.path} is in use again"
        else:
            seen = item.evidence.processes
            processes = " ".join(f"{p.pid} {'gone' if p.gone else 'STILL THERE'} ({p.how})" for p in seen)
            files = f"{item.path} {'gone' if item.evidence.files.gone else 'STILL THERE'}"
        table.add_row(item.kind, escape(item.reason), escape(processes or "none"), escape(files))
    Screen().print(table)
