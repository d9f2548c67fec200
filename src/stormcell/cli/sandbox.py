"""`stormcell sandbox`: create, list, exec, cp, fork, snapshot, pause, resume, kill."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from stormcell.cli.interrupt import ended_once
from stormcell.cli.options import DURATION, Pair
from stormcell.cli.output import emit_json, json_flag, report_error, safe, say

if TYPE_CHECKING:
    from stormcell.sandbox.asandbox import AsyncSandbox


_DEFAULT = click.core.ParameterSource.DEFAULT


@click.group()
def sandbox() -> None:
    """Throwaway microVMs."""


@sandbox.command()
@click.option("--template", "-t", default="base", show_default=True, help="A template's name or a recipe's file.")
@click.option("--ttl", type=DURATION, default="10m", show_default=True, help="It goes when nobody used it for so long.")
@click.option("--meta", type=Pair("KEY=VALUE"), multiple=True, help="A note to find it by; may be repeated.")
@click.option("--open", "ports", type=Pair("NAME=PORT"), multiple=True, help="Forward 127.0.0.1 to this guest port.")
@click.option("--raw", is_flag=True, help="As the snapshot was: no new clock, entropy, hostname or machine id.")
@click.option("--snapshot", help="Go on from a saved moment instead (`sandbox snapshot`); its template and ports.")
@json_flag
def create(
    template: str,
    ttl: float,
    meta: tuple[tuple[str, str], ...],
    ports: tuple[tuple[str, str], ...],
    raw: bool,
    snapshot: str | None,
    as_json: bool,
) -> None:
    """Restore a template and print the new sandbox's id. It lives until its ttl or `kill`."""
    from stormcell.sandbox.asandbox import AsyncSandbox
    from stormcell.template.model import Progress

    wanted = {}
    for name, port in ports:
        if not port.isdecimal():
            raise click.BadParameter(f"'{port}' is no port; write NAME=PORT, for example web=8080", param_hint="--open")
        if not 1 <= int(port) <= 65535:
            raise click.BadParameter(f"{port} is out of range; a port is between 1 and 65535", param_hint="--open")
        if name in wanted:
            raise click.BadParameter(f"'{name}' is opened twice; give each port its own name", param_hint="--open")
        wanted[name] = int(port)

    def line(progress: Progress) -> None:
        say(f"[{progress.template}] {progress.elapsed_s:6.1f} s  {progress.text}")

    if snapshot is not None and (wanted or click.get_current_context().get_parameter_source("template") != _DEFAULT):
        raise click.UsageError("a snapshot has its own template and ports; leave out --template and --open")

    async def work() -> AsyncSandbox:
        if snapshot is not None:
            restored = await AsyncSandbox.restore(
                snapshot, ttl_seconds=ttl, metadata=dict(meta), raw=raw, detached=True
            )
            await restored.close()
            return restored
        made = await AsyncSandbox.create(
            template,
            ttl_seconds=ttl,
            metadata=dict(meta),
            open_ports=wanted,
            raw=raw,
            detached=True,
            progress=line,
        )
        await made.close()
        return made

    made = ended_once(work())
    if as_json:
        emit_json(_about(made))
        return
    click.echo(made.id)
    for name, host_port in made.ports.items():
        say(f"{name}: 127.0.0.1:{host_port}")
    if raw:
        say("raw: its clock, random numbers, hostname and machine id are those of the snapshot")


def _about(made: AsyncSandbox) -> dict[str, Any]:
    """For JSON."""
    record = made.record
    return {
        "id": made.id,
        "template": record.template_name,
        "digest": record.template,
        "raw": record.raw,
        "ttl_seconds": record.ttl_seconds,
        "ports": dict(made.ports),
        "metadata": dict(record.metadata),
        "parent": record.parent,
        "snapshot": record.snapshot,
        "orphans": [asdict(orphan) for orphan in made.orphans],
    }


@sandbox.command()
@click.option("--count", "-n", type=click.IntRange(1, 64), default=1, show_default=True, help="How many children.")
@click.option("--ttl", type=DURATION, help="As the parent's when not given.")
@click.option("--meta", type=Pair("KEY=VALUE"), multiple=True, help="A note to find them by; may be repeated.")
@click.option("--raw", is_flag=True, help="The same to the bit: no new clock, entropy, hostname or machine id.")
@json_flag
@click.argument("id")
def fork(count: int, ttl: float | None, meta: tuple[tuple[str, str], ...], raw: bool, as_json: bool, id: str) -> None:
    """Copy a running sandbox: all that is in it goes on, here and in the children. Prints their ids."""
    from stormcell.sandbox.asandbox import AsyncSandbox

    async def work() -> list[AsyncSandbox]:
        parent = await AsyncSandbox.attach(id)
        try:
            made = await parent.fork(count, ttl_seconds=ttl, metadata=dict(meta), raw=raw, detached=True)
            for child in made:
                await child.close()
        finally:
            await parent.close()
        return made

    children = ended_once(work())
    if as_json:
        emit_json([_about(child) for child in children])
        return
    for child in children:
        click.echo(child.id)
        for name, host_port in child.ports.items():
            say(f"{name}: 127.0.0.1:{host_port}")
        for orphan in child.orphans:
            say(f"goes on there with nobody to answer to: process {orphan.pid}, {safe(orphan.command)}")


@sandbox.command()
@click.option("--meta", type=Pair("KEY=VALUE"), multiple=True, help="A note to find it by; may be repeated.")
@json_flag
@click.argument("id")
@click.argument("name")
def snapshot(meta: tuple[tuple[str, str], ...], as_json: bool, id: str, name: str) -> None:
    """Save this moment of a running sandbox under a NAME, for `sandbox create --snapshot NAME`."""
    from stormcell.sandbox.asandbox import AsyncSandbox
    from stormcell.sandbox.snapshots import Snapshot
    from stormcell.spec.units import size_text

    async def work() -> Snapshot:
        found = await AsyncSandbox.attach(id)
        try:
            return await found.snapshot(name, metadata=dict(meta))
        finally:
            await found.close()

    saved = ended_once(work())
    if as_json:
        emit_json(saved.as_dict())
    else:
        click.echo(f"{saved.name} {saved.digest[:12]} {size_text(saved.size // 2**20 * 2**20)}")


@sandbox.command("list")
@json_flag
def list_command(as_json: bool) -> None:
    """List the sandboxes of this user."""
    from stormcell.sandbox.listing import rows
    from stormcell.spec.home import Home

    found = rows(Home.current())
    if as_json:
        emit_json([row.as_dict() for row in found])
        return
    if not found:
        say("no sandbox")
        return
    from rich.markup import escape
    from rich.table import Table

    from stormcell.cli.screen import Screen

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("id", "template", "state", "age", "ttl left", "ports", "memory"):
        table.add_column(heading, no_wrap=heading == "id", overflow="fold")
    for row in found:
        state = f"{row.state}: {row.why}" if row.why else row.state
        ports = " ".join(f"{name}={port}" for name, port in row.ports.items())
        memory = f"{row.memory_pss / 2**20:.0f} MiB"
        age, left = _span(row.age_s), _span(row.ttl_left_s)
        table.add_row(row.id, escape(row.template), escape(state), age, left, escape(ports), memory)
    Screen().print(table)


def _span(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f}{unit}"
    return f"{seconds:.0f}s"


@sandbox.command(
    "exec",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    options_metavar="[OPTIONS]",
)
@click.option("--cwd", help="The working folder in the guest.")
@click.option("--env", type=Pair("KEY=VALUE"), multiple=True, help="May be repeated.")
@click.option("--user", "-u", help="Name, uid, name:group or uid:gid; root when not given.")
@click.option("--timeout", type=DURATION, default="5m", show_default=True, help="Then all its processes are killed.")
@click.option("--interactive", "-i", is_flag=True, help="Pass standard input on even if it is a terminal.")
@click.argument("id")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def exec_command(
    cwd: str | None,
    env: tuple[tuple[str, str], ...],
    user: str | None,
    timeout: float,
    interactive: bool,
    id: str,
    command: tuple[str, ...],
) -> None:
    """Run a command in a sandbox, as if it ran here: its streams, its signals, its exit code.

    Exit code: the command's own; 128+N when signal N killed it; 124 when it ran into its timeout; 125 for an error of
    stormcell's, also when the outcome is unknown.
    """
    from stormcell.cli.passthrough import pass_through
    from stormcell.spec.errors import OutcomeUnknown, StormcellError

    try:
        code = asyncio.run(
            pass_through(
                id,
                # click leaves the `--` that follows the id
                [os.fsencode(word) for word in (command[1:] if command[0] == "--" else command)],
                cwd=cwd,
                env=dict(env),
                user=user,
                timeout=timeout,
                stdin=interactive or not sys.stdin.isatty(),
            )
        )
    except StormcellError as error:
        if isinstance(error, OutcomeUnknown):
            say("outcome unknown: the command may have run, in part or whole")
        report_error(error)
        code = 125
    sys.exit(code)


@sandbox.command()
@click.option("--recursive", "-r", is_flag=True, help="Folders, with all in them.")
@click.argument("source")
@click.argument("target")
def cp(recursive: bool, source: str, target: str) -> None:
    """Copy files: `cp FILE ID:/path`, `cp ID:/path FILE`, or from one sandbox to another.

    Bytes and permission bits are kept. Links and special files are left out, with a note and exit code 1.
    """
    from stormcell.cli.copying import copy

    skipped = ended_once(copy(source, target, recursive))
    for path in skipped:
        say(f"left out, for it is no file and no folder: {path}")
    sys.exit(1 if skipped else 0)


@sandbox.command()
@click.argument("id")
def pause(id: str) -> None:
    """Stop a sandbox's processors and clocks. Its ttl goes on."""
    ended_once(_on(id, "pause"))


@sandbox.command()
@click.argument("id")
def resume(id: str) -> None:
    """Let a paused sandbox go on."""
    ended_once(_on(id, "resume"))


async def _on(id: str, verb: str) -> None:
    from stormcell.sandbox.asandbox import AsyncSandbox

    found = await AsyncSandbox.attach(id)
    try:
        await getattr(found, verb)()
    finally:
        await found.close()


@sandbox.command()
@click.argument("ids", nargs=-1, required=True)
@json_flag
def kill(ids: tuple[str, ...], as_json: bool) -> None:
    """End sandboxes and print the evidence: process gone, files gone. One that is gone already is no error."""
    from stormcell.sandbox.ending import end_by_id

    async def work() -> list[Any]:
        return [await end_by_id(id, "it was killed") for id in ids]

    found = ended_once(work())
    if as_json:
        emit_json([evidence.as_dict() for evidence in found])
    else:
        for evidence in found:
            click.echo(safe(evidence.sentence()))
    sys.exit(0 if all(evidence.complete for evidence in found) else 3)
