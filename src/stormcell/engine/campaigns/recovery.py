"""What became of the runs that a dead process had begun. Decided from what they left, never by running them again.

the run's folder holds a result                      that is its result
it was undone on purpose (Ctrl-C, fail-fast)         it may be run
no machine was asked for                             it may be run
its events tell the whole story                      they are judged, and that is its result
anything else                                        its outcome is lost: `unknown`, run again only when asked
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from stormcell.engine.api import conclude
from stormcell.engine.campaigns.folder import CampaignFolder
from stormcell.engine.folder import RunFolder, read_plan
from stormcell.engine.load import Loaded
from stormcell.judge.events import read_events
from stormcell.ledger.model import Ledger
from stormcell.sandbox.removal import remove
from stormcell.sandbox.survey import decide_now, look_at_all
from stormcell.spec.errors import SpecError
from stormcell.spec.home import Home
from stormcell.spec.verdict import Result, Verdict

LOST = "the process that ran it died, and what it left does not say how it ended"


def facts(folder: CampaignFolder, run: Path, result: Result, **more: Any) -> dict[str, Any]:
    """What the ledger keeps of a run that came to an end."""
    return {
        "verdict": result.verdict.value,
        "why": result.reasons[0].text if result.reasons else "",
        "surprise": result.surprise,
        "folder": str(run.relative_to(folder.path)),
        **more,
    }


def undone(result: Result) -> bool:
    """Whether a run ended because somebody stopped it; its machine was released."""
    return bool(result.reasons) and result.verdict is Verdict.UNKNOWN and result.reasons[0].code == "interrupted"


def settle(ledger: Ledger, folder: CampaignFolder, execution: str, loaded: Loaded) -> None:
    """Say in the ledger what became of a run that is claimed there by nobody who lives."""
    entry = ledger.entry(execution)
    if entry.state != "claimed":
        return
    run = folder.run_of(execution, entry.attempts)
    result = saved(run)
    if result is not None and run is not None:
        if undone(result):
            ledger.release(execution, "interrupted")
        else:
            ledger.finish(execution, facts(folder, run, result))
    elif run is None or not _begun(run):
        ledger.release(execution, "it had not been begun")
    else:
        result = _from_events(run, loaded)
        if result is None or result.verdict is Verdict.UNKNOWN:
            left = {"verdict": "unknown", "lost": True, "why": LOST, "folder": str(run.relative_to(folder.path))}
            ledger.finish(execution, left)
        else:
            ledger.finish(execution, facts(folder, run, result))


def sweep(folder: CampaignFolder, home: Home) -> list[str]:
    """Remove the machines that a killed session of this campaign left. Returns the ids of those seen gone."""
    mine = {run.name for pattern in ("runs/*/*/*", "setup/*") for run in folder.path.glob(pattern)}
    gone = []
    for found in look_at_all(home.sandboxes):
        if found.record and found.record.metadata.get("run") in mine and (decision := decide_now(found)).remove:
            evidence = remove(found.folder, decision.reason)
            gone += [found.folder.name] if evidence and evidence.complete else []
    return gone


def saved(run: Path | None) -> Result | None:
    """The result that a run wrote, if it is there and whole."""
    try:
        return Result.model_validate(json.loads((run / "result.json").read_text())) if run else None
    except (OSError, ValueError, ValidationError):
        return None


def _begun(run: Path) -> bool:
    """Whether a machine was asked for: that is the first event."""
    try:
        return bool((run / "events.jsonl").read_bytes())
    except OSError:
        return False


def _from_events(run: Path, loaded: Loaded) -> Result | None:
    try:
        return conclude(RunFolder(run), loaded, read_plan(run), read_events(run / "events.jsonl"))
    except SpecError:
        return None
