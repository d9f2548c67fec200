"""A run's folder with branches judges the same again, and becomes a page, whatever is missing in it."""

import json
import shutil
from pathlib import Path

import pytest

from stormcell.engine.api import judge_folder
from stormcell.engine.folder import RunFolder
from stormcell.judge.branches import Told
from stormcell.report.load import load_run
from stormcell.spec.errors import SpecError
from tests.unit.judge.test_branches import drive_plan, driven, noisy, told


def save(folder: RunFolder, what: Told) -> None:
    folder.write_json("plan.json", what.plan.model_dump(mode="json"))
    for event in what.events:
        folder.event(event)
    folder.save_receipts(what.receipts)
    folder.close()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = RunFolder.create(tmp_path, "parted")
    plan = drive_plan("late", "same")
    save(folder, Told(plan, driven(plan).events))
    parts = {"control": told("control"), "late": told("branch", noisy(3, middle=0.3)), "same": told("branch", noisy(4))}
    for name, part in parts.items():
        save(folder.below(f"branches/{name}"), part)
    folder.save_result(judge_folder(folder.path))
    return folder.path


def test_the_whole_and_each_branch_judge_the_same_again(run: Path):
    result = judge_folder(run)
    assert [(branch.name, branch.deviates) for branch in result.branches] == [
        ("control", None),
        ("late", True),
        ("same", False),
    ]
    assert json.loads((run / "result.json").read_text()) == result.model_dump(mode="json")
    for branch in result.branches:
        assert judge_folder(run / branch.folder) == branch.result


def test_a_branch_that_never_began_is_unknown(run: Path):
    shutil.rmtree(run / "branches" / "same")
    result = judge_folder(run)
    assert (result.verdict, result.reasons[0].text) == ("unknown", "branch 'same' was not run")


def test_a_branch_whose_events_are_gone_is_unknown(run: Path):
    (run / "branches" / "same" / "events.jsonl").unlink()
    assert judge_folder(run).verdict == "unknown"


def test_a_branch_that_was_killed_while_its_folder_was_made_is_unknown(run: Path):
    shutil.rmtree(run / "branches" / "same")
    (run / "branches" / "same").mkdir()
    assert judge_folder(run).verdict == "unknown"


def test_a_damaged_branch_is_one_error(run: Path):
    (run / "branches" / "same" / "plan.json").write_text("{")
    with pytest.raises(SpecError, match=r"plan\.json is damaged"):
        judge_folder(run)


def test_a_page_has_every_branch_and_the_differences_in_their_units(run: Path):
    page = load_run(run)
    assert [(branch.name, branch.control, branch.run.verdict) for branch in page.branches] == [
        ("control", True, "survived"),
        ("late", False, "survived"),
        ("same", False, "survived"),
    ]
    assert page.comparison
    row = next(row for row in page.comparison.rows if (row.branch, row.metric) == ("late", "web p50"))
    assert row.unit == "ms"
    assert row.difference and row.low and row.high
    assert row.low < row.difference < row.high
    assert 200 < row.difference < 300
    rate = next(row for row in page.comparison.rows if (row.branch, row.metric) == ("late", "web success_rate"))
    assert (rate.unit, rate.difference) == ("%", 0)
