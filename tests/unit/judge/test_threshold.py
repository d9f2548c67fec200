"""The search by halves, against systems whose threshold is known."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormcell.judge.threshold import Seen, next_step, unfinished
from stormcell.spec.campaign import Find
from stormcell.spec.matrix import SearchResult


def search(find, system):
    """Ask until there is an answer. `system` says of a value whether it broke this time."""
    find = Find.model_validate(find)
    found: dict[float, Seen] = {}
    number = 0
    for _ in range(300):
        step = next_step(find, found)
        if isinstance(step, SearchResult):
            return step
        for ask in step:
            assert ask.count > 0
            seen = found.setdefault(ask.at.value, Seen(ask.at))
            for _ in range(ask.count):
                number += 1
                seen.runs.append((str(number), system(ask.at.value)))
    raise AssertionError("no answer")


DELAY = "net.delay.delay between 10ms and 2s where checkout p95 breaks"


def runs(answer):
    return sum(len(point.runs) for point in answer.points)


@settings(deadline=None)
@given(st.floats(0.0101, 1.99))
def test_a_sharp_threshold_is_between_the_ends_of_the_answer(threshold):
    answer = search(DELAY, lambda value: value > threshold)
    assert answer.outcome == "found" and answer.harder == "up"
    assert answer.low is not None and answer.high is not None
    assert answer.low <= threshold <= answer.high
    assert answer.high - answer.low <= 0.05 * answer.high
    assert runs(answer) <= 25


@settings(deadline=None)
@given(st.integers(9_000, 999_000))
def test_less_can_be_harder(threshold):
    answer = search("net.rate.rate between 8kbit and 1mbit where breaks", lambda value: value < threshold)
    assert answer.harder == "down"
    assert answer.low is not None and answer.high is not None
    assert answer.low <= threshold <= answer.high


@settings(deadline=None)
@given(st.integers(0, 99))
def test_whole_numbers_end_at_neighbours(threshold):
    find = {"parameter": "fault.count", "between": [0, 100], "within": 1}
    answer = search(find, lambda value: value > threshold)
    assert (answer.low, answer.high) == (threshold, threshold + 1)


def test_a_coarser_answer_costs_less():
    fine = search(DELAY, lambda value: value > 0.3)
    find = {"parameter": "fault.delay", "between": ["10ms", "2s"], "within": "500ms"}
    coarse = search(find, lambda value: value > 0.3)
    assert runs(coarse) < runs(fine)


def test_the_ends_are_tried_first():
    everywhere = search(DELAY, lambda _: True)
    assert everywhere.outcome == "breaks everywhere" and "already at both ends" in everywhere.text
    nowhere = search(DELAY, lambda _: False)
    assert nowhere.outcome == "holds everywhere" and "neither end" in nowhere.text
    assert runs(everywhere) == runs(nowhere) == 4  # two of three decide


def test_where_nothing_is_said_nothing_is_found():
    answer = search(DELAY, lambda value: None if value == 2 else False)
    assert answer.outcome == "nothing learnt" and "at 2s 6 runs did not decide" in answer.text


def test_void_runs_are_made_again():
    tries: dict[float, int] = {}

    def sometimes(value):
        tries[value] = tries.get(value, 0) + 1
        return None if tries[value] == 1 else value > 0.3

    assert search(DELAY, sometimes).outcome == "found"


@pytest.mark.parametrize("seed", range(20))
def test_doubt_widens_the_answer(seed):
    """Within 200 to 400 ms chance decides: the answer's ends are where every run agreed."""
    rng = random.Random(seed)

    def noisy(value):
        return value > 0.4 or (value > 0.2 and rng.random() < (value - 0.2) / 0.2)

    answer = search({"parameter": "fault.delay", "between": ["10ms", "2s"], "repeats": 7, "most_runs": 200}, noisy)
    assert answer.outcome == "found"
    by_text = {point.text: point for point in answer.points}
    assert answer.holds_at is not None and answer.breaks_at is not None
    assert by_text[answer.holds_at].share.good == 0
    assert by_text[answer.breaks_at].share.good == by_text[answer.breaks_at].share.total
    for point in answer.points:
        if point.share.good not in (0, point.share.total):
            assert answer.low is not None and answer.high is not None
            assert answer.low < point.value < answer.high
    assert any("would look the same" in caution for caution in answer.cautions)


def test_it_ends_when_its_runs_are_spent():
    find = {"parameter": "fault.delay", "between": ["10ms", "2s"], "most_runs": 6}
    answer = search(find, lambda value: value > 0.3)
    assert answer.outcome == "found" and runs(answer) <= 8
    assert "ended after" in answer.cautions[0]


def test_what_was_stopped_says_so_with_its_points():
    find = Find.model_validate(DELAY)
    step = next_step(find, {})
    assert not isinstance(step, SearchResult)
    seen = {ask.at.value: Seen(ask.at, [("a", True)]) for ask in step}
    answer = unfinished(find, seen, "interrupted")
    assert answer.outcome == "unfinished" and len(answer.points) == 2
