"""Schedules as moments: in order, never two acts at once, the same for the same seed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stormcell.engine.timeline import ends_after, moments
from stormcell.spec.schedule import Schedule

MS = st.integers(1, 5000).map(lambda n: f"{n}ms")


@st.composite
def schedules(draw):
    at = draw(st.sampled_from(["0s", "250ms", "3s"]))
    form = draw(st.sampled_from(["lasts", "pulse", "flap", "random"]))
    times = draw(st.integers(1, 20))
    if form == "lasts":
        return Schedule.model_validate({"at": at, "lasts": draw(MS)})
    if form == "pulse":
        return Schedule.model_validate({"at": at, "pulse": {"on": draw(MS), "off": draw(MS), "times": times}})
    if form == "flap":
        spans = [sorted(draw(st.tuples(st.integers(1, 900), st.integers(1, 900)))) for _ in range(2)]
        on, off = ([f"{n}ms" for n in span] for span in spans)
        return Schedule.model_validate({"at": at, "flap": {"on": on, "off": off, "times": times}})
    lasts = draw(st.integers(1, 500))
    within = (lasts + 500) * times + draw(st.integers(0, 5000))
    return Schedule.model_validate(
        {"at": at, "random": {"within": f"{within}ms", "lasts": f"{lasts}ms", "times": times}}
    )


@given(schedules(), st.text(max_size=8))
def test_acts_and_undos_take_turns_and_time_never_goes_back(schedule, seed):
    made = moments(schedule, seed)
    assert [moment.do for moment in made] == ["apply", "undo"] * (len(made) // 2)
    times = [moment.at_s for moment in made]
    assert times == sorted(times)
    assert times[0] >= schedule.at
    assert times[-1] <= ends_after(schedule) + 1e-5


@given(schedules(), st.integers())
def test_the_seed_decides(schedule, seed):
    assert moments(schedule, str(seed)) == moments(schedule, str(seed))


def test_other_seeds_draw_other_moments():
    flap = Schedule.model_validate({"flap": {"on": ["100ms", "2s"], "off": ["100ms", "2s"], "times": 3}})
    assert moments(flap, "1") != moments(flap, "2")


def test_only_what_is_drawn_stands_at_a_moment_of_its_own():
    drawn = moments(Schedule.model_validate({"random": {"within": "9s", "lasts": "1s", "times": 2}}), "")
    assert [(m.do, m.counted) for m in drawn] == [("apply", "start"), ("undo", "previous")] * 2
    pulses = moments(Schedule.model_validate({"pulse": {"on": "1s", "off": "1s", "times": 2}}), "")
    assert {m.counted for m in pulses} == {"previous"}


def test_a_ramp_changes_in_place_or_acts_anew():
    ramp = Schedule.model_validate({"ramp": {"parameter": "delay", "through": [1, 2, 3], "each": "2s"}})
    assert [(m.at_s, m.do, m.level) for m in moments(ramp, "", [False, True, False])] == [
        (0, "apply", 0), (2, "change", 1), (4, "undo", 1), (4, "apply", 2),
    ]  # fmt: skip
    assert ends_after(ramp) == 6


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "neither when nor for how long"),
        ({"lasts": "1s", "pulse": {"on": "1s", "off": "1s", "times": 2}}, "one form at a time"),
        ({"pulse": {"on": "0s", "off": "1s", "times": 2}}, "0s"),
        ({"pulse": {"on": "1s", "off": "1s", "times": 0}}, "greater than or equal to 1"),
        ({"flap": {"on": ["2s", "1s"], "off": "1s", "times": 2}}, "longer than"),
        ({"random": {"within": "3s", "lasts": "2s", "times": 2}}, "do not fit"),
        ({"ramp": {"parameter": "delay", "through": [1], "each": "1s"}}, "at least 2"),
        ({"lasts": 5}, "unit"),
        ({"repeat": 3}, "unknown field"),
    ],
)
def test_a_schedule_that_cannot_be_meant(wrong, said):
    with pytest.raises(ValidationError, match=said):
        Schedule.model_validate(wrong)
