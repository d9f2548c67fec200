"""`stormcell template`: build, list, show, remove."""

from __future__ import annotations

import asyncio
import time

import click

from stormcell.cli.output import emit_json, json_flag, say


@click.group()
def template() -> None:
    """Guest images and their warmed snapshots."""


@template.command("build")
@click.argument("recipes", nargs=-1, required=True)
@json_flag
def build_command(recipes: tuple[str, ...], as_json: bool) -> None:
    """Build templates from recipe files, or from the shipped recipe `base`. One that matches already is kept."""
    from stormcell.spec.home import Home
    from stormcell.template.build import build
    from stormcell.template.model import Progress
    from stormcell.template.store import find

    home = Home.current()
    found = [find(name, home) for name in recipes]
    built = []
    for recipe in found:
        began = time.monotonic()

        def line(progress: Progress) -> None:
            say(f"[{progress.template}] {progress.elapsed_s:6.1f} s  {progress.text}")

        done = asyncio.run(build(recipe, home=home, progress=line))
        built.append({"name": done.name, "digest": done.digest, "seconds": round(time.monotonic() - began, 1)})
        if not as_json:
            click.echo(f"{done.name} {done.digest[:12]} ready after {time.monotonic() - began:.1f} s")
    if as_json:
        emit_json(built)


@template.command("list")
@json_flag
def list_command(as_json: bool) -> None:
    """List what is there, whole or not."""
    from dataclasses import asdict

    from stormcell.spec.units import size_text
    from stormcell.template.store import Store, shipped

    entries = Store().list()
    if as_json:
        emit_json([asdict(entry) for entry in entries])
        return
    if not entries:
        say(f"no template was built yet; shipped recipes: {', '.join(shipped())}")
        return
    from rich.markup import escape
    from rich.table import Table

    from stormcell.cli.screen import Screen

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("name", "digest", "state", "memory", "on disk", "acceleration", "built"):
        table.add_column(heading, no_wrap=heading == "name", overflow="fold")
    for entry in entries:
        state = f"{entry.state}: {entry.reason}" if entry.reason else entry.state
        on_disk = size_text(entry.bytes_on_disk // 2**20 * 2**20)
        memory = f"{entry.memory_mib} MiB"
        table.add_row(escape(entry.name), entry.digest[:12], escape(state), memory, on_disk, entry.accel, entry.built)
    Screen().print(table)


@template.command("show")
@click.argument("name")
@click.option("--verify", is_flag=True, help="Read every byte and compare it with the manifest.")
def show_command(name: str, verify: bool) -> None:
    """Print a template's manifest: what it was made from, and the digest of every file."""
    from stormcell.template.store import Store

    emit_json(Store().show(name, verify=verify))


@template.command("rm")
@click.argument("names", nargs=-1, required=True)
@json_flag
def remove_command(names: tuple[str, ...], as_json: bool) -> None:
    """Remove templates. Their root file systems stay in the cache for the next build."""
    from stormcell.sandbox.snapshots import of_template
    from stormcell.spec.errors import TemplateError
    from stormcell.spec.home import Home
    from stormcell.template.store import Store

    store = Store()
    for name in names:
        if standing := of_template(Home.current(), store.digest_of(name)):
            raise TemplateError(
                f"the template '{name}' is what snapshots stand on: {', '.join(standing)}",
                remedy=f"remove them first: stormcell snapshot rm {' '.join(standing)}",
            )
    removed = [str(path) for name in names for path in store.remove(name)]
    if as_json:
        emit_json({"removed": removed})
    else:
        for path in removed:
            click.echo(f"removed {path}")
