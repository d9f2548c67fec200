"""`stormcell schema`: the one published schema."""

from __future__ import annotations

import click

from stormcell.cli.output import emit_json


@click.command()
@click.argument(
    "what",
    type=click.Choice(["experiment", "campaign", "recipe", "plan", "result", "campaign-result"]),
    default="experiment",
)
def schema(what: str) -> None:
    """Print the JSON schema of an experiment (default), a campaign, a template recipe, a plan or a result."""
    from stormcell.engine.schema import schema_of

    emit_json(schema_of(what))
