"""`stormcell template`: build, list, show, remove."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from stormcell.cli.interrupt import ended_once
from stormcell.cli.output import emit_json, json_flag, say

if TYPE_CHECKING:
    from stormcell.sandbox.templates_gone import Gone
    from stormcell.template.store import Entry


@click.group()
def template() -> None:
    """Guest images and their warmed snapshots."""


@template.command("build")
@click.argument("recipes", nargs=-1, required=True)
@click.option("--sealed", is_flag=True, help="The sealed variants, for `run --sealed`.")
@json_flag
def build_command(recipes: tuple[str, ...], sealed: bool, as_json: bool) -> None:
    """Build templates from recipe files, or from the shipped recipe `base`. One that matches already is kept."""
    from stormcell.spec.home import Home
    from stormcell.template.build import build
    from stormcell.template.model import Progress
    from stormcell.template.sealed import build_sealed
    from stormcell.template.store import find

    home = Home.current()
    found = [find(name, home) for name in recipes]
    built: list[dict[str, object]] = []
    for recipe in found:
        began = time.monotonic()

        def line(progress: Progress) -> None:
            say(f"[{progress.template}] {progress.elapsed_s:6.1f} s  {progress.text}")

        about: dict[str, object]
        if sealed:
            variant = ended_once(build_sealed(recipe, home=home, progress=line))
            about = {"name": variant.name, "digest": variant.digest, "sealed": True, "snapshot": variant.snapshot}
        else:
            done = ended_once(build(recipe, home=home, progress=line))
            about = {"name": done.name, "digest": done.digest}
        took = round(time.monotonic() - began, 1)
        built.append({**about, "seconds": took})
        if not as_json:
            kind = f" (sealed, snapshot {str(about['snapshot'])[:12]})" if sealed else ""
            click.echo(f"{about['name']} {str(about['digest'])[:12]}{kind} ready after {took:.1f} s")
    if as_json:
        emit_json(built)


@template.command("list")
@json_flag
def list_command(as_json: bool) -> None:
    """List what is there, whole or not: live ones, and the variants of sealed runs."""
    from dataclasses import asdict

    from stormcell.spec.home import Home
    from stormcell.template.sealedstore import SealedStore
    from stormcell.template.store import Store, shipped

    home = Home.current()
    live, sealed = Store(home).list(), SealedStore(home).list()
    if as_json:
        emit_json([asdict(entry) for entry in (*live, *sealed)])
        return
    if not live and not sealed:
        say(f"no template was built yet; shipped recipes: {', '.join(shipped())}")
        return
    if live:
        _table(live, ("name", "digest", "state", "memory", "on disk", "acceleration", "built"))
    if sealed:
        click.echo(("\n" if live else "") + "sealed:")
        _table(sealed, ("name", "digest", "state", "memory", "on disk", "snapshot", "built in", "built"))


def _table(entries: Sequence[Entry], headings: tuple[str, ...]) -> None:
    from rich.markup import escape
    from rich.table import Table

    from stormcell.cli.screen import Screen
    from stormcell.spec.units import size_text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for entry in entries:
        cells = {
            "name": entry.name,
            "digest": entry.digest[:12],
            "state": f"{entry.state}: {entry.reason}" if entry.reason else entry.state,
            "memory": f"{entry.memory_mib} MiB",
            "on disk": size_text(entry.bytes_on_disk // 2**20 * 2**20),
            "acceleration": entry.accel,
            "snapshot": entry.snapshot[:12],
            "built in": "" if entry.build_seconds is None else f"{entry.build_seconds:.1f} s",
            "built": entry.built,
        }
        table.add_row(*(escape(cells[heading]) for heading in headings))
    Screen().print(table)


@template.command("show")
@click.argument("name")
@click.option("--verify", is_flag=True, help="Read every byte and compare it with the manifest.")
def show_command(name: str, verify: bool) -> None:
    """Print a template's manifest: what it was made from, and the digest of every file.

    NAME is a name, or a digest or its first 8 digits or more; a sealed one is named by its digest, or by a name that no
    live one has.
    """
    from stormcell.spec.errors import TemplateNotFound
    from stormcell.spec.home import Home
    from stormcell.template.sealedstore import SealedStore
    from stormcell.template.store import Store

    home = Home.current()
    try:
        about = Store(home).show(name, verify=verify)
    except TemplateNotFound:
        sealed = SealedStore(home)
        digests = sealed.matching(name)
        if not digests:
            raise
        about = sealed.show(digests[0], verify=verify)
    emit_json(about)


@template.command("rm")
@click.argument("names", nargs=-1)
@click.option("--stale", is_flag=True, help="All that nothing uses and nobody would ask for.")
@click.option("--dry-run", is_flag=True, help="With --stale: show what would go; remove nothing.")
@json_flag
def remove_command(names: tuple[str, ...], stale: bool, dry_run: bool, as_json: bool) -> None:
    """Remove templates by name or digest, live and sealed. Their root file systems stay for the next build.

    --stale removes those that are broken, made by another QEMU or replaced by a newer one of the name, unless a
    sandbox, a snapshot, an instant or a machine uses them or they were asked for within the last hour.
    """
    from stormcell.sandbox.templates_gone import remove_named, remove_stale
    from stormcell.spec.home import Home

    if bool(names) == stale:
        raise click.UsageError("NAMES to remove, or --stale: one of them is needed")
    if dry_run and not stale:
        raise click.UsageError("--dry-run goes with --stale")
    home = Home.current()
    gone: list[Gone] = []
    for item in remove_stale(home, dry_run=dry_run) if stale else remove_named(home, names):
        gone.append(item)
        if not as_json:
            _tell(item, dry_run)
    freed = sum(item.freed for item in gone)
    if as_json:
        removed = [str(path) for item in gone if not dry_run for path in item.paths]
        emit_json({"removed": removed, "freed": freed, "templates": [item.as_dict() for item in gone]})
    elif stale:
        count = sum(not item.kept for item in gone)
        done = f"{freed / 2**20:,.0f} MiB {'would be ' if dry_run else ''}freed"
        say(f"{count} templates, {done}; {len(gone) - count} kept")


def _tell(item: Gone, dry_run: bool) -> None:
    entry = item.entry
    name = f"{entry.name} {entry.digest[:12]}{' (sealed)' if entry.sealed else ''}"
    if item.kept:
        click.echo(f"kept {name}: {item.why}, but {item.kept}")
    else:
        done = "would remove" if dry_run else "removed"
        click.echo(f"{done} {name}: {item.why}; {item.freed / 2**20:,.0f} MiB")
