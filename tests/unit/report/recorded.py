"""Runs' folders as real runs left them, made small: their consoles and specs are not here.

late-by-turns        two faults at once: pulses, and a ramp changed in place; survived
stopped-early        an abort condition was met
cut-off              our process was killed with SIGKILL while the fault was in force: no receipts.json, no result.json
slow-database-first  probed from the host; failed. This and the next two were written before events had since and until
power-cut-fixed      the machine crashed and booted again: two runners; twelve tries at recovery
no-names-fixed       void: the fault touched nothing
sealed-loss          sealed: times are the guest's; with all that it can be repeated from
broken-before        void: the host was so busy that the page was slow before any fault
"""

import json
import shutil
from pathlib import Path
from typing import Any

from stormcell.engine.folder import read_plan, read_receipts
from stormcell.judge.events import read_events
from stormcell.judge.verdict import judge
from stormcell.report.load import load_report, load_run
from stormcell.report.model import Report, Run
from stormcell.report.story import story

DATA = Path(__file__).with_name("data")
NAMES = sorted(folder.name for folder in DATA.iterdir())
VERDICTS = {
    "late-by-turns": "survived",
    "stopped-early": "failed",
    "cut-off": "unknown",
    "slow-database-first": "failed",
    "power-cut-fixed": "survived",
    "no-names-fixed": "void",
    "broken-before": "void",
    "sealed-loss": "failed",
}


def recorded(name: str) -> Run:
    return load_run(DATA / name)


def everything() -> Report:
    return load_report([(DATA / name, f"{name}.yaml") for name in NAMES])


def with_events(name: str, change: Any) -> Run:
    """The same run, had the guest written other events: `change` gets each event and returns one."""
    plan, receipts = read_plan(DATA / name), read_receipts(DATA / name)
    events = [change(json.loads(json.dumps(event))) for event in read_events(DATA / name / "events.jsonl")]
    return story(plan, events, receipts, judge(plan, events, receipts))


def campaign_folder(folder: Path, name: str) -> Path:
    """A campaign's folder with its result and one run: the others were removed since."""
    folder.mkdir(exist_ok=True)
    text = (Path(__file__).with_name("campaigns") / f"{name}.json").read_text().replace("FOLDER", str(folder))
    (folder / "result.json").write_text(text)
    (folder / "ledger.jsonl").write_text("")
    lines = [line for cell in json.loads(text)["cells"] for line in cell["runs"]]
    failed = next(Path(line["folder"]) for line in lines if line["verdict"] == "failed")
    failed.parent.mkdir(parents=True)
    shutil.copytree(DATA / "slow-database-first", failed)
    return folder


def campaigns(below: Path) -> Report:
    """A matrix, and a search."""
    return load_report([(campaign_folder(below / name, name), "") for name in ("late-web", "how-late")])
