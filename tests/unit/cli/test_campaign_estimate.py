"""How long a campaign still takes."""

import pytest

from stormcell.cli.campaign_progress import estimate, rough


@pytest.mark.parametrize(
    ("done", "left", "jobs", "seconds"),
    [
        ([], ["a"], 2, None),
        ([], [], 2, 0.0),
        ([("a", 4.0)], ["a"] * 10, 2, 20.0),
        ([("a", 4.0), ("a", 8.0)], ["a"], 2, 6.0),
        ([("a", 2.0), ("b", 10.0)], ["a", "b", "c"], 1, 18.0),
    ],
)
def test_runs_to_come_take_as_long_as_those_of_their_cell_did(done, left, jobs, seconds):
    assert estimate(done, left, jobs) == seconds


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (42, "40 s"), (100, "2 min"), (9000, "2.5 h")])
def test_an_estimate_has_no_digits_to_spare(seconds, text):
    assert rough(seconds) == text
