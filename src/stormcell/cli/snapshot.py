"""`stormcell snapshot`: list, show, remove.

`stormcell sandbox snapshot` takes one of a sandbox, `stormcell run --replay FOLDER --stop-at PLACE --snapshot NAME` one
of a sealed run.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from stormcell.cli.output import emit_json, json_flag, say

if TYPE_CHECKING:
    from stormcell.engine.sealed.kept import Kept
    from stormcell.sandbox.snapshots import Snapshot
    from stormcell.spec.home import Home


@click.group()
def snapshot() -> None:
    """Saved moments of sandboxes, and of sealed runs."""


@snapshot.command("list")
@json_flag
def list_command(as_json: bool) -> None:
    """List them by name."""
    from stormcell.sandbox.snapshots import names
    from stormcell.spec.errors import SnapshotBroken
    from stormcell.spec.home import Home
    from stormcell.spec.units import size_text

    home = Home.current()
    rows = []
    for name in names(home):
        try:
            rows.append({**_read(home, name).as_dict(), "state": "ready"})
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
    for heading in ("name", "kind", "digest", "of", "from", "size", "taken", "state"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for row in rows:
        if row["state"] == "ready":
            taken = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row["created"]))
            size = size_text(row["size"] // 2**20 * 2**20)
            cells = [row["name"], row["kind"], row["digest"][:12], *map(escape, _origin(row)), size, taken, "ready"]
        else:
            cells = [row["name"], "", "", "", "", "", "", escape(row["state"])]
        table.add_row(*cells)
    Screen().print(table)


def _origin(row: Mapping[str, Any]) -> tuple[str, str]:
    """What it is of: a template and a sandbox, or an experiment and its moment."""
    if "stopped" in row:
        return row["experiment"], f"{row['stopped']['seconds']:.3f} s, event {row['stopped']['event']}"
    return row["template_name"], row["parent"]


def _read(home: Home, name: str) -> Snapshot | Kept:
    from stormcell.engine.sealed import kept
    from stormcell.sandbox import snapshots

    if snapshots.kind_of(snapshots.manifest_of(home, name)) == kept.KIND:
        return kept.read(home, name)
    return snapshots.read(home, name)


@snapshot.command("show")
@click.argument("name")
@click.option("--verify", is_flag=True, help="Read every byte and compare it with the manifest; a restore does so too.")
def show_command(name: str, verify: bool) -> None:
    """Print what is known of one."""
    from stormcell.engine.sealed import kept
    from stormcell.sandbox import snapshots
    from stormcell.spec.home import Home

    home = Home.current()
    found = _read(home, name)
    if isinstance(found, kept.Kept):
        if verify:
            kept.verify(found)
        emit_json({**found.as_dict(), "files": dict(found.about["files"])})
        return
    if verify:
        snapshots.verify(home, found)
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
