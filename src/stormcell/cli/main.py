"""The command line. Commands import what they need when they run, so that `--help` is quick."""

from __future__ import annotations

import importlib
from typing import Any

import click

from stormcell import __version__
from stormcell.cli.output import Group

COMMANDS = {
    "doctor": "stormcell.cli.doctor:doctor",
    "template": "stormcell.cli.template:template",
    "run": "stormcell.cli.run:run",
    "explore": "stormcell.cli.explore:explore",
    "judge": "stormcell.cli.judge:judge",
    "report": "stormcell.cli.report:report",
    "sandbox": "stormcell.cli.sandbox:sandbox",
    "snapshot": "stormcell.cli.snapshot:snapshot",
    "faults": "stormcell.cli.faults:faults",
    "schema": "stormcell.cli.schema:schema",
    "gc": "stormcell.cli.gc:gc",
}


class _Lazy(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[name].partition(":")
        command: Any = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        from stormcell.spec.value import nearest

        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            raise click.UsageError(f"there is no command '{args[0]}'; {nearest(args[0], COMMANDS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="stormcell")
def main() -> None:
    """Chaos engineering inside microVMs: real kernel faults, proven by the kernel, from the same start."""
