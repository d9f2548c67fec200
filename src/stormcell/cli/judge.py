"""`stormcell judge`: the verdict again, from a run's folder."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import click

from stormcell.cli.output import emit_json, json_flag, say


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@json_flag
def judge(folder: Path, as_json: bool) -> None:
    """Recompute the verdict of a run, or of a campaign and all its runs, from what its folder holds.

    Exit code as `stormcell run`. When something else had been concluded, that is said and the exit code is 4.
    """
    if (folder / "ledger.jsonl").exists():
        _campaign(folder, as_json)
    from stormcell.cli.results import show_result
    from stormcell.engine.api import judge_folder, saved_result
    from stormcell.engine.sealed.bundle import known
    from stormcell.spec.verdict import EXIT_CODE

    result = judge_folder(folder)
    saved = saved_result(folder)
    fresh = result.model_dump(mode="json")
    same = _same(saved, fresh) if saved is not None else None
    if as_json:
        sealed = known(folder) if result.instruction_time else None
        times = {} if sealed is None else {"sealed": sealed.as_dict()}
        emit_json({**fresh, "folder": str(folder), "same_as_saved": same, **times})
    else:
        show_result(result, folder)
    if same is False:
        _say_different(fresh, saved or {})
        sys.exit(4)
    if same is None:
        say("the run itself never wrote a result")
    sys.exit(EXIT_CODE[result.verdict])


def _same(saved: Mapping[str, Any], fresh: Mapping[str, Any]) -> bool:
    """A field that the version of then did not have yet has its default."""
    from pydantic import ValidationError

    from stormcell.spec.verdict import Result

    try:
        return Result.model_validate(saved).model_dump(mode="json") == fresh
    except ValidationError:
        return False


def _say_different(fresh: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    differing = sorted(key for key in fresh if saved.get(key) != fresh[key])
    say(f"result.json says something else: {', '.join(differing) or 'fields that are no longer there'}")


def _campaign(folder: Path, as_json: bool) -> NoReturn:
    from stormcell.cli.matrix import show
    from stormcell.engine.campaigns.api import judge_campaign
    from stormcell.spec.verdict import EXIT_CODE

    again = judge_campaign(folder)
    fresh = again.result.model_dump(mode="json")
    same = None if again.saved is None else again.saved == fresh and not again.differing
    if as_json:
        different = list(again.differing)
        emit_json({**fresh, "folder": str(folder), "same_as_saved": same, "differing_runs": different})
    else:
        show(again.result, folder)
    for name in again.differing:
        say(f"the events of run {name} say something else than the ledger")
    if again.saved is None:
        say("the campaign itself never wrote a result")
    elif again.saved != fresh:
        _say_different(fresh, again.saved)
    sys.exit(4 if same is False else EXIT_CODE[again.result.verdict])
