"""Campaigns as real ones left them: a matrix on a busy machine (many void runs), and a search that did not decide."""

from pathlib import Path

import pytest

from stormcell.report.campaigns import is_campaign, load_campaign
from stormcell.report.load import load_report, load_run
from stormcell.report.model import Campaign
from stormcell.report.page import page
from tests.unit.report.recorded import campaign_folder


@pytest.fixture
def folder(tmp_path, name) -> Path:
    return campaign_folder(tmp_path, name)


def loaded(folder: Path) -> Campaign:
    assert is_campaign(folder)
    return load_campaign(folder, load_run)


@pytest.mark.parametrize("name", ["late-web"])
def test_a_matrix_has_the_last_axis_across_and_every_run_in_its_cell(folder):
    campaign = loaded(folder)
    assert (campaign.verdict, len(campaign.lines), campaign.complete) == ("failed", 24, True)
    matrix = campaign.matrix
    assert matrix is not None and campaign.threshold is None
    assert (matrix.rows_are, matrix.columns_are, matrix.columns) == ("delay", "p95", ("<= 300ms", "<= 800ms"))
    assert [row.name for row in matrix.rows] == ["20ms", "80ms", "160ms"]
    cell = matrix.rows[2].cells[0]
    assert cell is not None and (cell.survived, cell.failed, cell.void, cell.judged) == (0, 2, 2, 2)
    assert sorted(cell.runs) == ["failed", "failed", "void", "void"] and cell.interval is not None
    assert "web p95 719 ms" in cell.note


@pytest.mark.parametrize("name", ["late-web"])
def test_a_comparison_of_too_few_runs_says_so(folder):
    comparison = loaded(folder).comparison
    assert comparison is not None and len(comparison.rows) == 7
    assert all(row.deviates is None and "too few" in row.note for row in comparison.rows)
    first = comparison.rows[0]
    assert first.difference is not None and first.low is not None and -100 <= first.low <= first.difference


@pytest.mark.parametrize("name", ["late-web"])
def test_the_run_that_is_there_is_shown_in_full_and_linked_from_its_cell(folder):
    report = load_report([(folder, "")])
    (campaign,) = report.campaigns
    assert [run.verdict for run in campaign.runs] == ["failed"]
    assert campaign.matrix is not None
    assert [cell.page for row in campaign.matrix.rows for cell in row.cells if cell and cell.page] == [1]
    text = page(report)
    assert 'href="#c1-run-1"' in text and 'id="c1-run-1"' in text
    assert "late-web: 1 of 24 runs in full" in text


@pytest.mark.parametrize("name", ["how-late"])
def test_a_search_has_its_points_and_one_that_said_nothing_is_no_success(folder):
    campaign = loaded(folder)
    assert campaign.matrix is None and campaign.threshold is not None
    points = {point.text: (point.broke, point.tries) for point in campaign.threshold.points}
    assert points["83ms"] == (0, 0) and points["102ms"] == (2, 3) and points["400ms"] == (2, 2)
    assert campaign.threshold.low is None
    text = page(load_report([(folder, "")]))
    assert "83ms: not known" in text and "83ms: 0 of 0" not in text
    assert "102ms: 2 of 3 broke" in text
