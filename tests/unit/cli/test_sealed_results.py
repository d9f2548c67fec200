"""How a sealed run shows itself on a terminal, in a table, as Markdown and to a program."""

import json
import shutil
import subprocess
import sys

import pytest

from stormcell.cli.results import markdown_table, show_result, show_results
from stormcell.engine.api import Outcome, judge_folder
from stormcell.judge.wording import GUEST_TIME
from tests.unit.report.recorded import DATA

SEALED, LIVE = DATA / "sealed-loss", DATA / "late-by-turns"


def outcome(folder):
    return Outcome(judge_folder(folder), folder)


def test_one_run_names_both_clocks_and_the_command_that_repeats_it(capsys):
    show_result(judge_folder(SEALED), SEALED)
    told = capsys.readouterr().out
    assert "sealed: seed 7; 8.775 s* of guest time in 8.505 s of the host's, 1.03 to 1" in told
    assert told.count(GUEST_TIME) == 1
    assert f"repeat stormcell run --replay {SEALED}" in told
    assert "p95 2.719 s*, wanted <= 1s" in told and "(wanted <= 1s)" in told


def test_a_live_run_has_no_star(capsys):
    show_result(judge_folder(LIVE), LIVE)
    told = capsys.readouterr().out
    assert "*" not in told and "guest time" not in told and "--replay" not in told


def test_a_table_has_one_more_column_where_a_run_was_sealed(capsys):
    show_results([outcome(SEALED), outcome(LIVE)])
    told = capsys.readouterr().out
    assert "guest time : host time" in told and "= 1.03" in told and told.count(GUEST_TIME) == 1
    show_results([outcome(LIVE), outcome(LIVE)])
    assert "guest time" not in capsys.readouterr().out


def test_markdown_keeps_its_stars():
    told = markdown_table([outcome(SEALED), outcome(LIVE)])
    heads, rule, first, second, empty, star = told.splitlines()
    assert heads.count("|") == rule.count("|") == 8 and "8.775 s\\* : 8.505 s = 1.03" in first
    assert second.endswith("|  |") and not empty and star == f"\\* {GUEST_TIME}"
    assert "\\*" not in markdown_table([outcome(LIVE)]) and "guest" not in markdown_table([outcome(LIVE)])


@pytest.mark.parametrize("damaged", [False, True])
def test_judge_tells_a_program_of_both_clocks(tmp_path, damaged):
    folder = tmp_path / "run"
    shutil.copytree(SEALED, folder)
    if damaged:
        (folder / "sealed.json").write_text("{}")
    argv = [sys.executable, "-m", "stormcell", "judge", str(folder), "--json"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    told = json.loads(done.stdout)
    assert (done.returncode, told["same_as_saved"], told["instruction_time"]) == (1, True, True), done.stderr
    assert ("sealed" in told) is not damaged
    if not damaged:
        assert told["sealed"]["ratio"] == 1.032 and told["sealed"]["seed"] == 7


def test_a_result_from_before_there_were_sealed_runs_is_still_the_same():
    folder = DATA / "broken-before"
    saved = json.loads((folder / "result.json").read_text())
    assert "instruction_time" not in saved
    argv = [sys.executable, "-m", "stormcell", "judge", str(folder), "--json"]
    told = json.loads(subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False).stdout)
    assert told["same_as_saved"] is True
