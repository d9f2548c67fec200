"""`stormcell snapshot`: list, show, remove. `stormcell sandbox snapshot` takes one."""

from __future__ import annotations

import time

import click

from stormcell.cli.output import emit_json, json_flag, say


@click.group()
def snapshot() -> None:
    """Saved moments of sandboxes."""


@snapshot.command("list")
@json_flag
def list_command(as_json: bool) -> None:
    """List them by name."""
    from stormcell.sandbox.snapshots import names, read
    from stormcell.spec.errors import SnapshotBroken
    from stormcell.spec.home import Home
    from stormcell.spec.units import size_text

    home = Home.current()
    rows = []
    for name in names(home):
        try:
            rows.append({**read(home, name).as_dict(), "state": "ready"})
        except SnapshotBroken as error:
            rows.append({"name": name, "state": error.what})
    if as_json:
        emit_json(rows)
        return
    if not rows:
        say("no snapshot; `stormcell sandbox snapshot ID NAME` takes one")
        return
    from rich.markup import escape
    from rich.table import Table

    from stormcell.cli.screen import Screen

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "digest", "template", "of", "size", "taken", "state"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for row in rows:
        if row["state"] == "ready":
            taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["created"]))
            size = size_text(row["size"] // 2**20 * 2**20)
            cells = [row["name"], row["digest"][:12], escape(row["template_name"]), row["parent"], size, taken, "ready"]
        else:
            cells = [row["name"], "", "", "", "", "", escape(row["state"])]
        table.add_row(*cells)
    Screen().print(table)


@snapshot.command("show")
@click.argument("name")
@click.option("--verify", is_flag=True, help="Read every byte and compare it with the manifest; a restore does so too.")
def show_command(name: str, verify: bool) -> None:
    """Print what is known of one."""
    from stormcell.sandbox.snapshots import read
    from stormcell.sandbox.snapshots import verify as read_all
    from stormcell.spec.home import Home

    home = Home.current()
    found = read(home, name)
    if verify:
        read_all(home, found)
    emit_json({**found.as_dict(), "files": dict(found.files)})


@snapshot.command("rm")
@click.argument("names", nargs=-1, required=True)
@json_flag
def remove_command(names: tuple[str, ...], as_json: bool) -> None:
    """Remove snapshots, and what nobody else stands on."""
    from stormcell.sandbox.snapshots import remove
    from stormcell.spec.home import Home

    home = Home.current()
    removed = [str(remove(home, name)) for name in names]
    if as_json:
        emit_json({"removed": removed})
    else:
        for path in removed:
            click.echo(f"removed {path}")
