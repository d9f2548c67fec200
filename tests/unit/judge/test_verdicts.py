"""A row for every verdict and every code, then what no log may ever lead to."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.judge import verdict as verdict_module
from stormcell.judge.rules import RULES, STOPS
from stormcell.judge.verdict import judge
from stormcell.spec.plan import Plan
from stormcell.spec.receipt import Held
from stormcell.spec.verdict import Prediction, Result, Verdict
from tests.unit.judge.judge_story import ROWS, SURVIVES, WEB, Story, answers, guest_plan, receipt
from tests.unit.judge.verdict_rows import (
    FAILED,
    MOUNT,
    OUR_PROCESS,
    QUEUE,
    ROWS_OF_THE_TABLE,
    SURVIVED,
    UNKNOWN,
    VOID,
    Run,
    crash,
    crash_while_awaited,
    differing,
    held,
    host_vantage,
    run,
    scheduled,
    stopped,
    with_receipt,
)


@pytest.mark.parametrize("name", ROWS_OF_THE_TABLE)
def test_verdict_and_deciding_reason(name: str) -> None:
    build, verdict, code = ROWS_OF_THE_TABLE[name]
    result = judge(*build())
    assert (result.verdict, result.reasons[0].code) == (verdict, code), result.reasons
    assert all(reason.text for reason in result.reasons)


def test_every_code_has_a_row() -> None:
    tested = {code for _, _, code in ROWS_OF_THE_TABLE.values()}
    assert {rule.code for rule in RULES} <= tested
    assert set(STOPS) <= tested


def test_a_code_belongs_to_one_verdict_and_rules_are_in_order_of_precedence() -> None:
    assert len({rule.code for rule in RULES}) == len(RULES)
    order = [list(Verdict)[::-1].index(rule.verdict) for rule in RULES]
    assert order == sorted(order), "unknown, void, failed"


@pytest.mark.parametrize(
    ("weaker", "stronger"),
    [
        ({"under__web": answers(failed=20)}, {"in_force": False}),
        ({"under__web": answers(failed=20)}, {"acted": 0}),
        ({"recovery__web": answers(failed=20)}, {"acted": None}),
    ],
)
def test_a_fault_without_proof_voids_the_run_though_probes_failed(weaker: Any, stronger: Any) -> None:
    plan = guest_plan()
    result = judge(plan, Story(plan, **weaker).whole().events, receipt(plan, **stronger))
    assert result.verdict == VOID
    codes = [reason.code for reason in result.reasons]
    assert codes[-1] in ("out_of_bounds", "recovery_failed"), (
        "the lesser reasons are listed too, after the deciding ones"
    )


def test_a_lost_outcome_is_unknown_whatever_else_is_known() -> None:
    plan = guest_plan()
    story = Story(plan, under__web=answers(failed=20)).whole()
    story.host("lost", code="guest_lost", text="the channel broke")
    result = judge(plan, story.events, receipt(plan, in_force=False))
    assert [reason.code for reason in result.reasons] == ["guest_lost", "not_in_force", "out_of_bounds"]
    assert result.verdict == UNKNOWN


def test_a_fault_that_was_never_begun_gives_no_reasons_of_its_own() -> None:
    plan, events, _ = stopped("setup.1", "setup_failed")
    result = judge(plan, events, receipt(plan, in_force=None, acted=None, clean=None, undo_ok=None))
    assert [reason.code for reason in result.reasons] == ["setup_failed"]


def test_reasons_name_numbers() -> None:
    result = judge(*run(under__web=answers(latency=0.612)))
    (reason,) = result.reasons
    assert reason.text == "probe 'web' under the fault, from the guest: p95 612 ms, wanted <= 500ms (n = 20)"
    (reason,) = judge(*run(under__web=answers(failed=5))).reasons
    assert "success_rate 75 %, wanted >= 90%" in reason.text
    (reason,) = judge(*with_receipt(acted=0)).reasons
    assert reason.text == "net.delay touched nothing: 0 packets delayed"


def test_what_is_left_says_whose_it_is_or_may_be() -> None:
    (reason,) = judge(*differing(QUEUE)).reasons
    assert reason.text == (
        "after the undo, in queues, 'lo root 1:' was not there and is netem: "
        "net.delay may have left it, or a process of the workload did it"
    )
    (reason,) = judge(*differing(OUR_PROCESS)).reasons
    assert reason.text.endswith("it is the fault's own")
    told = judge(*differing(MOUNT)).cannot_know
    assert any("in mounts, '/mnt' was not there and is rw tmpfs: no fault of this run works there" in s for s in told)


def test_how_long_it_was_in_force_is_told() -> None:
    assert "time 2, was for 2.4 s in force; 5 s were asked" in judge(*held((5, 5.1), (5, 2.4))).reasons[0].text
    (said,) = [s for s in judge(*held((0.1, 0.6), (0.1, 0.7))).cannot_know if "longer in force" in s]
    assert "(2 of 2 times; time 2: asked 100 ms, had 700 ms)" in said


def test_the_last_level_of_a_ramp_stays_until_the_undo_and_that_is_no_delay() -> None:
    levels = (Held(level="delay 1ms", asked_s=1, had_s=1.1), Held(cycle=1, level="delay 9ms", asked_s=1, had_s=9))
    assert not [s for s in judge(*with_receipt(held=levels)).cannot_know if "longer in force" in s]


def test_a_fault_that_has_a_name_is_called_by_it() -> None:
    plan, events, receipts = with_receipt(acted=0, in_force=False, clean=False, undo_ok=False)
    named = json.loads(
        json.dumps([plan.model_dump(mode="json"), events]).replace('"fault": "fault"', '"fault": "late"')
    )
    plan_named = Plan.model_validate({**named[0], "faults": {"late": named[0]["faults"]["fault"]}})
    receipts = {"late": receipts["fault"].model_copy(update={"fault": "late"})}
    reasons = judge(plan_named, named[1], receipts).reasons
    assert len(reasons) == 4
    assert all("'late' (net.delay)" in reason.text for reason in reasons)


# predictions


@pytest.mark.parametrize(
    ("prediction", "samples", "surprise"),
    [
        (None, {}, None),
        (SURVIVES, {}, False),
        (SURVIVES, {"under__web": answers(failed=20)}, True),
        (Prediction(verdict=FAILED), {}, True),
        (Prediction(verdict=FAILED), {"under__web": answers(failed=20)}, False),
        (Prediction(verdict=FAILED, probe="web"), {"under__web": answers(failed=20)}, False),
        (Prediction(verdict=FAILED, probe="web"), {"recovery__web": answers(failed=20)}, False),
        (Prediction(verdict=FAILED, probe="rows"), {"under__web": answers(failed=20)}, True),
        (SURVIVES, {"before__web": answers(failed=20)}, None),
    ],
)
def test_surprise(prediction: Prediction | None, samples: Any, surprise: bool | None) -> None:
    assert judge(*run(guest_plan(prediction=prediction), **samples)).surprise is surprise


def test_nothing_is_surprising_in_a_lost_run() -> None:
    plan = guest_plan(prediction=SURVIVES)
    assert judge(plan, [], {}).surprise is None


def test_a_predicted_probe_that_recovers_late_failed() -> None:
    plan = guest_plan(prediction=Prediction(verdict=FAILED, probe="web"))
    story = Story(plan).whole()
    story.find("recovered", "recovery.web").update(began_s=30.0, seconds=31.0, attempts=9)
    assert judge(plan, story.events, receipt(plan)).surprise is False


# what the result holds


def test_the_result_carries_measurements_receipts_and_intervals() -> None:
    result = judge(*run(under__web=answers(failed=2)))
    under = next(p for p in result.probes if (p.probe, p.phase) == ("web", "under"))
    assert (under.samples, under.metrics["success_rate"], under.vantage) == (20, 0.9, "guest")
    assert under.detail.startswith("18 of 20 succeeded (95 % interval 69.9 % to 97.21 %)")
    low, high = result.info["success_intervals"]["under.web"]
    assert low < 0.9 < high
    recovery = next(p for p in result.probes if (p.probe, p.phase) == ("web", "recovery"))
    assert recovery.seconds == 1.2
    assert result.faults[0].acted == 312
    assert result.guest_seconds is not None and result.guest_seconds > 1


def test_two_runners_of_a_crash_are_told_apart() -> None:
    result = judge(*crash())
    assert result.info["runners"] == 2
    assert len(set(result.info["boot_ids"])) == 2


def test_a_result_survives_json() -> None:
    for build, _, _ in ROWS_OF_THE_TABLE.values():
        result = judge(*build())
        assert Result.model_validate_json(result.model_dump_json()) == result


# what must never happen


def good_logs() -> list[Run]:
    return [run(), crash(), crash_while_awaited(), host_vantage()]


@given(st.data())
def test_a_log_that_lost_its_end_never_survives(data: st.DataObject) -> None:
    plan, events, receipts = data.draw(st.sampled_from(good_logs()))
    assert judge(plan, events, receipts).verdict == SURVIVED
    cut = data.draw(st.integers(0, len(events) - 1))
    assert judge(plan, events[:cut], receipts).verdict == UNKNOWN


@given(st.data())
def test_a_log_that_lost_an_event_of_the_guest_never_survives(data: st.DataObject) -> None:
    plan, events, receipts = data.draw(st.sampled_from(good_logs()))
    index = data.draw(st.sampled_from([i for i, event in enumerate(events) if event["on"] == "guest"]))
    assert judge(plan, events[:index] + events[index + 1 :], receipts).verdict == UNKNOWN


@given(st.data())
def test_a_log_that_lost_a_measurement_of_the_host_never_survives(data: st.DataObject) -> None:
    plan, events, receipts = host_vantage()
    index = data.draw(st.sampled_from([i for i, e in enumerate(events) if e["on"] == "host" and "samples" in e]))
    assert judge(plan, events[:index] + events[index + 1 :], receipts).verdict == UNKNOWN


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.data())
def test_whatever_a_guest_writes_the_judge_answers(data: st.DataObject) -> None:
    plan, events, receipts = run()
    events = [dict(event) for event in events]
    victim = data.draw(st.sampled_from(events))
    key = data.draw(st.sampled_from(sorted(victim)))
    victim[key] = data.draw(JUNK)
    assert judge(plan, events, receipts).verdict in Verdict


@given(st.lists(JUNK, max_size=5))
def test_a_log_of_junk_is_unknown(junk: list[Any]) -> None:
    assert judge(guest_plan(), junk, {}).verdict == UNKNOWN


def test_a_judge_that_fails_answers_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(verdict_module, "build", fail)
    result = judge(*run())
    assert (result.verdict, result.reasons[0].code) == (UNKNOWN, "judge_error")
    assert "ZeroDivisionError" in result.reasons[0].text


def test_bounds_of_the_story_are_what_the_rows_assume() -> None:
    assert [bound.text for bound in (*WEB, *ROWS)] == [">= 90%", "<= 500ms", ">= 10"]


def test_a_schedule_that_a_probe_met_counts() -> None:
    assert judge(*scheduled(0.0, 50.0)).verdict == Verdict.SURVIVED
