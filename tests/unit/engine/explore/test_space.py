import contextlib
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.engine.explore.coverage import Tried, coverage
from stormcell.engine.explore.plans import compile_case, variant
from stormcell.engine.explore.run import space_of
from stormcell.engine.explore.shrink import shrink
from stormcell.engine.explore.space import Case, Space
from stormcell.engine.load import load_mapping
from stormcell.spec.errors import SpecError
from stormcell.spec.exploration import Exploration
from stormcell.spec.verdict import Verdict

LOSSES = ["1%", "5%", "20%"]
VARY = {"fault.delay": {"from": "10ms", "to": "1s"}, "fault.loss": LOSSES}


def space(**more):
    fields = {"vary": VARY, "when": {"from": "1s", "to": "5s"}, **more}
    return Space.of(Exploration.model_validate(fields), ["late", "lossy"], ["a", "b"])


def first(count, seed=0, **more):
    return list(itertools.islice(space(**more).cases(seed), count))


def test_the_corners_come_first_and_every_case_has_its_own_seed():
    harmless, harsh, third = first(3, seed=7)
    assert space().values(harmless) == {"fault.delay": "10ms", "fault.loss": "1%"}
    assert space().values(harsh) == {"fault.delay": "1s", "fault.loss": "20%"}
    assert (harmless.at, harsh.at) == (1.0, 5.0)
    assert [case.seed for case in (harmless, harsh, third)] == [7, 8, 9]
    assert third.faults == ("late", "lossy") and third.loads == ("a", "b")


def test_the_same_seed_gives_the_same_cases():
    assert first(50, seed=3) == first(50, seed=3)
    assert first(50, seed=3)[2:] != first(50, seed=4)[2:]


def test_a_range_is_spread_by_orders_of_magnitude_and_a_list_evenly():
    cases = first(102)[2:]
    below = sum(case.place("fault.delay") < 0.5 for case in cases)
    assert 45 <= below <= 55
    counts = [sum(space().values(case)["fault.loss"] == value for case in cases) for value in LOSSES]
    assert all(28 <= count <= 39 for count in counts)
    assert space().values(Case(0, (("fault.delay", 0.5), ("fault.loss", 0.0))))["fault.delay"] == "100ms"


def test_without_a_section_only_seeds_differ():
    alone = Space.of(Exploration(), ["fault"], [])
    assert list(itertools.islice(alone.cases(2), 2)) == [Case(2, faults=("fault",)), Case(3, faults=("fault",))]


@pytest.mark.parametrize(
    "bad",
    [
        {"vary": {"fault.delay": {"from": "1s", "to": "5%"}}},
        {"vary": {"fault.delay": {"from": "1s", "to": "1s"}}},
        {"vary": {"fault.delay": ["1s"]}},
        {"when": {"from": "5s", "to": "1s"}},
        {"schedule": True},
    ],
)
def test_what_varies_nothing_is_refused(bad):
    with pytest.raises(ValueError):
        Exploration.model_validate(bad)


def smallest(fails, case, where, *disturbances):
    """What shrinking comes to; every answer is recorded."""
    asking, asked = shrink(where, case, *disturbances), 0
    try:
        step = next(asking)
        while True:
            asked += 1
            assert asked < 500
            step = asking.send(fails(step.case))
    except StopIteration as end:
        return end.value


def test_a_list_is_weakened_to_the_values_before_its_own_only():
    where = space()
    for case in first(3):
        asking, own = shrink(where, case), where.values(case)["fault.loss"]
        asked, step = [], next(asking)
        with contextlib.suppress(StopIteration):
            while True:
                if step.text.startswith("fault.loss"):
                    asked.append(where.values(step.case)["fault.loss"])
                step = asking.send(False)
        assert asked == LOSSES[: LOSSES.index(own)]


def test_what_does_not_matter_goes():
    start = first(2)[1].but(noise=True)
    found = smallest(lambda case: "late" in case.faults and case.place("fault.delay") > 0.3, start, space())
    assert found.faults == ("late",) and found.loads == () and not found.noise
    assert 0.3 < found.place("fault.delay") <= 0.35
    assert space().values(found)["fault.loss"] == "1%"
    assert found.at > 4.8


@pytest.mark.parametrize(("limit", "most"), [(0.0, 0.0), (0.4, 0.44), (1.0, 1.0)])
def test_what_lasts_is_shortened(limit, most):
    where = Space((), None, ("late",), (), lasts=True)
    assert limit <= smallest(lambda case: case.length >= limit, Case(1, faults=("late",)), where).length <= most


@given(st.integers(0, 4000), st.integers(1, 60))
def test_the_disturbances_that_matter_are_found(start, length):
    def fails(case):
        return case.noise and case.first <= start and case.last >= start + length

    found = smallest(fails, Case(1, noise=True), Space((), None, (), (), 0.005), start + length + 100)
    assert fails(found)
    assert (found.first, found.last) == (start, start + length)


@given(st.floats(0, 1), st.sampled_from([(), ("late",), ("lossy",), ("late", "lossy")]))
def test_the_smallest_case_fails_itself(limit, needed):
    def fails(case):
        return set(needed) <= set(case.faults) and case.place("fault.delay") >= limit

    start = first(2)[1]
    found = smallest(fails, start, space())
    assert fails(found)
    assert found.place("fault.delay") <= start.place("fault.delay")


def tried(*verdicts, **more):
    return [
        Tried(number, case, verdict, "", 1.0, 1.0)
        for number, (case, verdict) in enumerate(zip(first(len(verdicts), **more), verdicts, strict=True), 1)
    ]


def test_coverage_counts_parts_and_what_broke():
    found = coverage(space(), tried(*[Verdict.SURVIVED] * 40))
    delay, loss, moment = found.dimensions
    assert (delay.parts, delay.met, loss.parts, loss.met, moment.parts) == (10, 10, 3, 3, 10)
    assert {pair.parts for pair in found.pairs} == {30, 100}
    assert found.seeds == 40 and found.bound == pytest.approx(0.0722, abs=1e-3)


def test_void_runs_cover_nothing_and_a_failure_leaves_no_bound():
    assert coverage(space(), tried(Verdict.VOID, Verdict.UNKNOWN)).dimensions[0].met == 0
    found = coverage(space(), tried(Verdict.SURVIVED, Verdict.FAILED))
    assert found.bound is None and found.dimensions[1].failed == 1
    assert found.counts == {"survived": 1, "failed": 1, "void": 0, "unknown": 0}


RACE = {
    "name": "x",
    "template": "base",
    "load": [{"name": "work", "run": "true"}],
    "steady_state": [{"name": "a", "command": {"run": "true"}, "expect": {"exit_code": 0}}],
}


@pytest.mark.parametrize(
    ("vary", "told"),
    [
        ({"setle": ["1s", "2s"]}, "unknown field 'setle'; did you mean 'settle'?"),
        ({"load.nope.run": ["a", "b"]}, "there is no 'nope'; known: work"),
        ({"settle": ["1s", "x"]}, "x"),
    ],
)
def test_what_cannot_be_varied_is_told_before_anything_starts(vary, told):
    loaded = load_mapping({**RACE, "explore": {"schedules": True, "vary": vary}})
    with pytest.raises(SpecError) as caught:
        space_of(loaded)
    assert told in str(caught.value) and "explore.vary" in str(caught.value)


@pytest.mark.parametrize(
    ("times", "vary", "lasts"),
    [
        ({"settle": "1s"}, {}, True),
        ({}, {}, False),
        ({"settle": "1s"}, {"settle": ["1s", "2s"]}, False),
        ({"settle": "1s", "hold": "1s"}, {"settle": ["1s", "2s"]}, True),
    ],
)
def test_what_varies_is_not_made_shorter_a_second_time(times, vary, lasts):
    assert space_of(load_mapping({**RACE, **times, "explore": {"schedules": True, "vary": vary}})).lasts is lasts


def test_a_load_ends_at_the_act_if_it_may():
    def fails(one):
        return "b" in one.loads

    case = smallest(fails, first(1)[0], space())
    assert (case.loads, case.brief) == (("b",), ("b",))
    case = smallest(lambda one: fails(one) and "b" not in one.brief, first(1)[0], space())
    assert (case.loads, case.brief, case.undone) == (("b",), (), ())


def test_a_load_that_goes_on_behind_the_undo_ends_there_if_it_may():
    longer = {**RACE, "load": [{"name": "work", "run": "true", "until": "end"}], "explore": {"schedules": True}}
    loaded = load_mapping(longer)
    where = space_of(loaded)
    case = smallest(lambda one: "work" in one.loads and not one.brief, next(where.cases(0)), where)
    assert (case.loads, case.undone) == (("work",), ("work",))
    assert variant(loaded, where, case).experiment.load[0].until == "undo"
    assert smallest(lambda one: "work" in one.loads, next(where.cases(0)), where).undone == ()


def test_a_case_is_an_experiment_with_its_own_plan():
    fields = {"settle": "2s", "fault": {"kind": "net.delay", "device": "lo", "delay": "1s"}}
    loaded = load_mapping({**RACE, **fields, "explore": {"schedules": True, "vary": {"fault.delay": ["1s", "2s"]}}})
    where = space_of(loaded)
    case = list(itertools.islice(where.cases(4), 2))[1].but(at=1.5, loads=(), length=0.5)
    one = variant(loaded, where, case)
    plan = compile_case(one, where, case, digest="")
    assert one.experiment.settle == 1.0 and one.disturbances[0].fault.params()["delay"] == "2s"
    names = [step.id for step in plan.steps]
    assert names[:4] == ["inventory.before", "noise", "drop.work", "moment"]
    assert "quiet" in names and "unload.work" not in names
    assert plan.seed == 5 and plan.sealed and plan.role == "branch"
    brief = [step.id for step in compile_case(one, where, case.but(loads=("work",), brief=("work",)), digest="").steps]
    assert brief[:4] == ["inventory.before", "noise", "moment", "end.work"] and "unload.work" not in brief
    bare = variant(loaded, where, case.but(faults=()))
    assert [s.id for s in compile_case(bare, where, case, digest="").steps if s.phase in ("fault", "undo")] == [
        "act",
        "undo",
    ]
