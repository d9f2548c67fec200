"""`stormcell judge`: the verdict again, from a run's folder."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from stormcell.cli.output import emit_json, json_flag, say


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_flag
def judge(folder: Path, as_json: bool) -> None:
    """Recompute the verdict of a run from its saved plan, events and receipts.

    Exit code as `stormcell run`. When the run had concluded something else, that is said and the exit code is 4.
    """
    from stormcell.cli.results import show_result
    from stormcell.engine.api import judge_folder, saved_result
    from stormcell.spec.verdict import EXIT_CODE

    result = judge_folder(folder)
    saved = saved_result(folder)
    fresh = result.model_dump(mode="json")
    same = saved == fresh if saved is not None else None
    if as_json:
        emit_json({**fresh, "folder": str(folder), "same_as_saved": same})
    else:
        show_result(result, folder)
    if same is False:
        differing = sorted(key for key in fresh if saved is not None and saved.get(key) != fresh[key])
        say(f"result.json says something else: {', '.join(differing) or 'fields that are no longer there'}")
        sys.exit(4)
    if same is None:
        say("the run itself never wrote a result")
    sys.exit(EXIT_CODE[result.verdict])
