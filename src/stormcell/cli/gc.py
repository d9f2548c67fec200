"""`stormcell gc`: what a dead process left."""

from __future__ import annotations

import sys

import click

from stormcell.cli.output import colour, emit_json, json_flag, say


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
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("what", "path", "why", "machine", "would go" if dry_run else "evidence"):
            table.add_column(heading, overflow="fold")
        for item in items:
            machines = " ".join(f"pid {pid}" for pid in item.machines) or "none"
            seen = "yes" if dry_run else item.evidence.sentence() if item.evidence else "it is in use again"
            table.add_row(item.kind, escape(str(item.path)), escape(item.reason), machines, escape(seen))
        Console(highlight=False, no_color=not colour(sys.stdout)).print(table)
    sys.exit(0 if dry_run or all(item.gone for item in items) else 3)
