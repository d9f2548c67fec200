"""The verdict on branches, and how they differ from their control, from event logs with chosen measurements."""

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stormcell.judge import significance
from stormcell.judge.branches import Told, judge_branches
from stormcell.judge.differences import differences
from stormcell.spec.fault import Command
from stormcell.spec.plan import ApplyStep, ForkStep, LoadStep, MarkStep, MomentStep, NeedsStep, Plan, Step, UndoStep
from stormcell.spec.verdict import Result
from tests.unit.judge.judge_story import SURVIVES, Story, crash_plan, guest_plan, receipt

Samples = list[list[Any]]


def drive_plan(*branches: str) -> Plan:
    steps: list[Step] = [
        LoadStep(id="load.writer", phase="before", load="writer", command=Command(argv=("sleep", "9"))),
        MomentStep(id="moment", phase="before", text="it is time", after_s=1.0, within_s=9, every_s=1),
        ForkStep(id="fork", phase="before"),
    ]
    return guest_plan().model_copy(
        update={"role": "drive", "branches": ("control", *branches), "faults": {}, "steps": tuple(steps)}
    )


def driven(plan: Plan, **last: Any) -> Story:
    story = Story(plan)
    story.begin()
    for step in plan.steps:
        story.guest("step", step=step.id, phase=step.phase)
        if isinstance(step, MomentStep):
            story.guest("moment", step=step.id, phase=step.phase, looks=0, seconds=1.0, text="it is time")
    story.guest("await", step="fork", phase="before")
    return story


def branch_plan(role: Any) -> Plan:
    plan = guest_plan(prediction=SURVIVES if role == "branch" else None)
    left_out = (NeedsStep, LoadStep)
    steps: list[Step] = [step for step in plan.steps if not isinstance(step, left_out) and step.id != "setup.1"]
    if role == "control":
        marks = {"apply": "act", "undo": "undo"}
        steps = [
            MarkStep(id=marks[step.id], phase=step.phase, mark=marks[step.id])
            if isinstance(step, ApplyStep | UndoStep)
            else step
            for step in steps
        ]
    faults = {} if role == "control" else plan.faults
    return plan.model_copy(update={"role": role, "faults": faults, "steps": tuple(steps)})


def told(
    role: str, web: Samples | None = None, before: Samples | None = None, after: Samples | None = None, **changes: Any
) -> Told:
    plan = branch_plan(role)
    samples = {"before__web": before or noisy(2), "under__web": web or noisy(1), "recovery__web": after or noisy(8, 10)}
    story = Story(plan, **samples).whole()
    return Told(plan, story.events, {} if role == "control" else receipt(plan, **changes))


def noisy(seed: int, count: int = 40, middle: float = 0.05, failed: int = 0) -> Samples:
    draw = random.Random(seed)
    good = [[n / 10, round(draw.uniform(0.8, 1.2) * middle, 9), 200] for n in range(count - failed)]
    return good + [[9 + n / 10, None, "timeout"] for n in range(failed)]


def judged(**branches: Told) -> Result:
    others = [name for name in branches if name != "control"]
    plan = drive_plan(*others)
    places = {name: f"branches/{name}" for name in branches}
    return judge_branches(Told(plan, driven(plan).events), branches, places)


def of(result: Result, branch: str, metric: str) -> Any:
    assert result.comparison is not None
    return next(row for row in result.comparison.rows if (row.branch, row.probe, row.metric) == (branch, "web", metric))


def test_a_branch_that_fails_and_deviates_and_one_that_does_not():
    result = judged(control=told("control"), broken=told("branch", noisy(3, failed=20)), same=told("branch", noisy(4)))
    assert result.verdict == "failed"
    assert [(b.name, b.result.verdict, b.deviates, b.folder) for b in result.branches] == [
        ("control", "survived", None, "branches/control"),
        ("broken", "failed", True, "branches/broken"),
        ("same", "survived", False, "branches/same"),
    ]
    assert [reason.code for reason in result.reasons] == ["branch_failed", "branch_survived"]
    row = of(result, "broken", "success_rate")
    assert (row.control, row.measured, row.difference) == (1.0, 0.5, -0.5)
    assert row.low < -0.5 < row.high < 0
    assert row.p is not None
    assert row.p < 1e-4
    assert (
        "it deviates from the control: web success_rate 100 % -> 50 % (-50 %, 95 % interval" in result.reasons[0].text
    )
    assert result.reasons[1].text == "branch 'same' survived; no difference from the control was found"
    assert result.surprise is True
    assert {fault.fault for fault in result.faults} == {"broken", "same"}
    assert any("no proof of none" in sentence for sentence in result.cannot_know)


def test_a_branch_may_survive_and_deviate():
    result = judged(control=told("control"), late=told("branch", noisy(3, middle=0.2)))
    assert result.verdict == "survived"
    assert result.branches[1].deviates is True
    row = of(result, "late", "p50")
    assert row.difference == pytest.approx(0.15, abs=0.03)
    assert row.low < row.difference < row.high
    assert "late' survived; it deviates from the control: web p50" in result.reasons[0].text


def test_a_difference_that_was_there_before_the_fault_is_not_the_faults():
    before, under = noisy(5, middle=0.058), noisy(6, middle=0.057)
    result = judged(control=told("control"), drifted=told("branch", under, before))
    row = of(result, "drifted", "p50")
    assert row.p is not None
    assert row.p < significance.ALPHA
    assert (row.deviates, row.note) == (False, "no more than was seen without a fault")
    assert result.branches[1].deviates is False


@pytest.mark.parametrize("quick", [0.03, 0.07])
def test_a_host_that_was_busy_while_the_control_was_measured_is_no_deviation(quick: float):
    """As seen: the control's answers took longer under its mark than after it, and those of an idle branch did not."""
    control = told("control", after=noisy(8, 10, quick))
    result = judged(control=control, same=told("branch", noisy(4, 40, quick)))
    row = of(result, "same", "p50")
    assert row.p is not None
    assert row.p < significance.ALPHA
    assert (row.deviates, row.note) == (False, "no more than was seen without a fault")
    assert judged(control=control, late=told("branch", noisy(4, middle=0.2))).branches[1].deviates is True


def test_too_few_samples_say_so():
    result = judged(control=told("control", noisy(1, 3)), few=told("branch", noisy(2, 3, failed=3)))
    row = of(result, "few", "success_rate")
    assert (row.deviates, row.note) == (None, "too few samples to show any difference")
    assert result.branches[1].deviates is None
    assert "cannot be said from so few samples (3 against 3)" in result.reasons[0].text


def test_nothing_answered_is_not_compared_by_latency():
    result = judged(control=told("control"), dark=told("branch", noisy(2, failed=40)))
    assert of(result, "dark", "p50").note == "nothing was answered"
    assert of(result, "dark", "p50").test == ""
    assert of(result, "dark", "success_rate").deviates is True


def test_what_is_measured_once_is_shown_without_a_test():
    result = judged(control=told("control"), one=told("branch"))
    assert result.comparison is not None
    (row,) = [row for row in result.comparison.rows if row.probe == "rows"]
    assert (row.metric, row.test, row.deviates, row.difference) == ("number", "", None, 0.0)
    assert "measured once" in row.note


def test_a_branch_that_measured_nothing_under_its_fault_is_not_compared():
    plan = crash_plan().model_copy(update={"role": "branch"})
    result = judged(control=told("control"), crash=Told(plan, Story(plan).whole().events, receipt(plan)))
    assert result.verdict == "survived"
    assert result.branches[1].deviates is None
    assert "nothing was measured while its fault was in force" in result.reasons[0].text


def test_numbers_alone_are_not_tested():
    cases = {name: told(role) for name, role in (("control", "control"), ("one", "branch"))}
    for name, each in cases.items():
        steps = tuple(step for step in each.plan.steps if getattr(step, "probe", "rows") == "rows")
        plan = each.plan.model_copy(update={"steps": steps})
        cases[name] = Told(plan, Story(plan).whole().events, each.receipts)
    result = judged(**cases)
    assert result.branches[1].deviates is None
    assert "nothing that it measured can be tested against the control" in result.reasons[0].text


@pytest.mark.parametrize(
    ("control", "verdict", "code"),
    [
        ({"web": noisy(1, failed=20)}, "void", "control_failed"),
        ({"before": noisy(1, failed=20)}, "void", "control_failed"),
    ],
)
def test_a_control_that_does_not_survive_makes_it_void(control: dict[str, Any], verdict: str, code: str):
    result = judged(control=told("control", **control), broken=told("branch", noisy(3, failed=20)))
    assert (result.verdict, result.reasons[0].code) == (verdict, code)
    assert "the control, to which nothing was done, came out" in result.reasons[0].text
    assert result.comparison is not None
    assert result.comparison.rows == ()
    assert result.surprise is None


def test_a_control_whose_outcome_is_lost_makes_it_unknown():
    lost = told("control")
    result = judged(control=Told(lost.plan, lost.events[:-1], {}), broken=told("branch", noisy(3, failed=20)))
    assert (result.verdict, result.reasons[0].code) == ("unknown", "control_unknown")


def test_without_a_control_nothing_is_known():
    assert judged(broken=told("branch")).reasons[0].code == "no_control"


def test_a_branch_that_was_not_run_is_unknown():
    plan = drive_plan("a", "b")
    result = judge_branches(Told(plan, driven(plan).events), {"control": told("control"), "a": told("branch")}, {})
    assert (result.verdict, result.reasons[0].text) == ("unknown", "branch 'b' was not run")


def test_a_branch_without_a_receipt_is_void_and_not_compared():
    result = judged(control=told("control"), idle=told("branch", noisy(3, failed=20), acted=0))
    assert (result.verdict, result.reasons[0].code) == ("void", "branch_void")
    assert "touched nothing" in result.reasons[0].text
    assert result.comparison is not None
    assert result.comparison.rows == ()


def test_a_moment_that_did_not_come_makes_it_void():
    plan = drive_plan("a")
    story = Story(plan).until("moment").stop("no_moment", "the moment did not come within 9 s")
    result = judge_branches(Told(plan, story.events), {}, {})
    assert (result.verdict, result.reasons[0].code) == ("void", "no_moment")
    assert result.branches == ()


def test_a_drive_that_was_cut_off_is_unknown():
    plan = drive_plan("a")
    events = driven(plan).events
    for end in range(len(events)):
        result = judge_branches(Told(plan, events[:end]), {"control": told("control"), "a": told("branch")}, {})
        assert result.verdict == "unknown", end


def test_an_interrupted_run_is_unknown_whatever_its_branches_came_to():
    plan = drive_plan("a")
    events = [*driven(plan).events, {"on": "host", "event": "lost", "code": "interrupted", "text": "by hand"}]
    result = judge_branches(Told(plan, events), {"control": told("control"), "a": told("branch")}, {})
    assert (result.verdict, result.reasons[0].code) == ("unknown", "interrupted")


def test_a_result_with_branches_survives_json():
    result = judged(control=told("control"), broken=told("branch", noisy(3, failed=20)))
    assert Result.model_validate_json(result.model_dump_json()) == result


attempts = st.lists(
    st.one_of(
        st.floats(0.001, 3).map(lambda s: [0.0, round(s, 9), 200]), st.just([0.0, None, "timeout"]),
    ),
    min_size=1,
    max_size=25,
)  # fmt: skip


@settings(max_examples=12)
@given(attempts, attempts)
def test_a_difference_turned_round_is_its_negative(one: Samples, other: Samples):
    there, _ = differences(told("control", other).case(), {"b": told("branch", one).case()})
    back, _ = differences(told("control", one).case(), {"b": told("branch", other).case()})
    for a, b in zip(there, back, strict=True):
        assert (a.control, a.measured) == (b.measured, b.control)
        if a.difference is not None and b.difference is not None:
            assert a.difference == pytest.approx(-b.difference)
        if a.test and a.metric == "success_rate":
            assert a.p == pytest.approx(b.p)
            assert a.low == pytest.approx(-(b.high or 0))


@settings(max_examples=12)
@given(attempts)
def test_a_branch_that_measured_the_same_never_deviates(samples: Samples):
    rows_, _ = differences(told("control", samples).case(), {n: told("branch", samples).case() for n in "abc"})
    assert not any(row.deviates for row in rows_)


@settings(max_examples=12)
@given(attempts, st.lists(attempts, min_size=1, max_size=4))
def test_corrected_chances_are_never_smaller_and_the_interval_holds_the_difference(control: Samples, others: Any):
    branches = {f"b{n}": told("branch", samples).case() for n, samples in enumerate(others)}
    found, tests = differences(told("control", control).case(), branches)
    assert tests <= 2 * len(branches)
    for row in found:
        if row.plain_p is not None:
            assert row.p is not None
            assert row.plain_p <= row.p <= 1
        if row.test == "fisher":
            assert row.low is not None and row.high is not None and row.difference is not None
            assert row.low - 1e-9 <= row.difference <= row.high + 1e-9
        if row.deviates:
            assert row.p is not None and row.p < significance.ALPHA
    assert found == differences(told("control", control).case(), branches)[0]
