"""`stormcell schema`: the one published schema."""

from __future__ import annotations

import click

from stormcell.cli.output import emit_json


@click.command()
@click.argument(
    "what",
    type=click.Choice(["experiment", "campaign", "recipe", "plan", "result", "campaign-result", "report"]),
    default="experiment",
)
def schema(what: str) -> None:
    """Print the JSON schema of an experiment (default), a campaign, a template recipe, a plan, a result or a report."""
    from stormcell.engine.schema import published, schema_of

    if what == "report":
        from stormcell.report.jsonfile import report_schema

        emit_json(published("report", report_schema()))
    else:
        emit_json(schema_of(what))
