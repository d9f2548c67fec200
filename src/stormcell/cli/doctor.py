"""`stormcell doctor`: what this machine can do."""

from __future__ import annotations

import sys

import click

from stormcell.cli.output import colour, emit_json, json_flag, say


@click.command()
@json_flag
def doctor(as_json: bool) -> None:
    """Say for every requirement whether it is met, why, and the remedy.

    The first time, a tiny guest is started to decide acceleration (at most 20 s).
    Exit code 2 when something is missing.
    """
    from stormcell.engine.doctor import Requirement, examine
    from stormcell.spec.home import Home

    def line(requirement: Requirement) -> None:
        mark, style = {True: ("ok", "green"), False: ("missing", "red"), None: ("-", "white")}[requirement.met]
        label = f"{mark:8}"
        if colour(sys.stdout):
            label = click.style(label, fg=style)
        click.echo(f"{label} {requirement.name:16} {requirement.why}")
        if requirement.remedy:
            click.echo(f"{'':8} {'':16} remedy: {requirement.remedy}")

    found = examine(Home.current(), (lambda _: None) if as_json else line, say)
    missing = [requirement.name for requirement in found if requirement.met is False]
    if as_json:
        emit_json({"requirements": [requirement.as_dict() for requirement in found], "missing": missing})
    elif missing:
        say(f"{len(missing)} missing: {', '.join(missing)}")
    sys.exit(2 if missing else 0)
