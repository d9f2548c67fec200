"""A row for every verdict and every code, then what no log may ever lead to."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.judge import verdict as verdict_module
from stormcell.judge.rules import HOST_LOSSES, RULES, STOPS
from stormcell.judge.verdict import judge
from stormcell.spec.plan import Moment, Plan
from stormcell.spec.probe import tolerances
from stormcell.spec.receipt import Receipt
from stormcell.spec.verdict import Prediction, Result, Verdict
from tests.unit.judge.judge_story import (
    ROWS,
    SURVIVES,
    WEB,
    Story,
    answers,
    crash_plan,
    guest_plan,
    receipt,
    rows,
)

Run = tuple[Plan, list[dict[str, Any]], dict[str, Receipt]]


def run(plan: Plan | None = None, receipts: dict[str, Receipt] | None = None, **samples: Any) -> Run:
    plan = plan or guest_plan()
    return plan, Story(plan, **samples).whole().events, receipt(plan) if receipts is None else receipts


def with_receipt(**changes: Any) -> Run:
    plan = guest_plan()
    return plan, Story(plan).whole().events, receipt(plan, **changes)


def stopped(step: str, code: str, **samples: Any) -> Run:
    plan = guest_plan()
    return plan, Story(plan, **samples).until(step).stop(code).events, {}


def lost(code: str, after: str = "under.rows") -> Run:
    plan = guest_plan()
    story = Story(plan).until(after)
    story.host("lost", code=code, text="it is gone")
    return plan, story.events, receipt(plan, clean=None, undo_ok=None)


def without(kind: str, step: str) -> Run:
    """One event taken out, and the others numbered as if it had never been."""
    plan, events, receipts = run()
    kept = [event for event in events if not (event["event"] == kind and event.get("step") == step)]
    guest = [event for event in kept if event["on"] == "guest"]
    for number, event in enumerate(guest):
        event["n"] = number
    return plan, kept, receipts


def changed(kind: str, at: str, **fields: Any) -> Run:
    plan = guest_plan()
    story = Story(plan).whole()
    story.find(kind, at).update(fields)
    return plan, story.events, receipt(plan)


def crash(in_force: bool | None = True, what: str = "booted", **samples: Any) -> Run:
    plan = crash_plan()
    story = Story(plan, **samples)
    if what == "booted":
        return plan, story.whole().events, receipt(plan, in_force=in_force)
    story.until("act").guest("end")
    for one in ("act", "exit", what):
        story.host("machine", what=one, step="act", fault="fault", text="no agent answered")
    return plan, story.events, receipt(plan, in_force=in_force, acted=int(bool(in_force)))


def crash_while_awaited() -> Run:
    """The runner was left waiting for the machine step, so that the load ran into the crash."""
    plan = crash_plan()
    story = Story(plan).until("act")
    story.guest("await", step="act", phase="fault")
    for one in ("act", "exit", "booted"):
        story.host("machine", what=one, step="act", fault="fault")
    story.begin()
    for step in plan.steps[3:]:
        story.perform(step)
    story.guest("end")
    return plan, story.events, receipt(plan)


def interrupted_on_host() -> Run:
    plan, events, receipts = run()
    return plan, [*events, {"on": "host", "event": "interrupted", "text": "Ctrl-C"}], receipts


def no_fault() -> Run:
    plan = guest_plan()
    bare = plan.model_copy(update={"steps": tuple(s for s in plan.steps if s.do not in ("apply", "undo"))})
    return bare, Story(bare).whole().events, {}


def aborted(**receipt_changes: Any) -> Run:
    """The runner undid the fault after the stop, as it always does."""
    plan = guest_plan()
    story = Story(plan).until("under.rows")
    story.guest("abort", condition="web", text="web: success_rate is 0.2")
    story.guest("stop", code="aborted", text="web: success_rate is 0.2 (< 50%)")
    story.guest("reading", fault="fault", label="after", reading={})
    story.guest("undone", fault="fault", ok=True, outputs=[])
    story.guest("end")
    return plan, story.events, receipt(plan, **receipt_changes)


def scheduled(at: float, end: float) -> Run:
    """A fault with a schedule, in force from `at` to `end` of a run whose probes looked early."""
    plan, events, receipts = run()
    fault = plan.faults["fault"].model_copy(update={"moments": (Moment(at_s=at, do="apply"),)})
    for event in events:
        event |= {"at": at} if event["event"] == "applied" else {"at": end} if event["event"] == "undone" else {}
        event |= {"began": event["t"] - 0.05} if event["event"] == "probe" else {}
    return plan.model_copy(update={"faults": {"fault": fault}}), events, receipts


def unmeasured_under() -> Run:
    plan = guest_plan()
    bare = plan.model_copy(update={"steps": tuple(s for s in plan.steps if s.phase != "under")})
    return bare, Story(bare).whole().events, receipt(plan)


def late(began: float, attempts: int) -> Run:
    return changed("recovered", "recovery.web", began_s=began, seconds=began + 0.2, attempts=attempts)


def only_p95(**samples: Any) -> Run:
    plan = guest_plan(web=tolerances("http", {"p95": "<= 500ms"}))
    return plan, Story(plan, **samples).whole().events, receipt(plan)


def host_vantage(**samples: Any) -> Run:
    plan = guest_plan(vantage="host")
    return plan, Story(plan, **samples).whole().events, receipt(plan)


NOT_SENT = [[0.0, None, "not_started"]]
BROKEN = {"success_rate": 0.5}
SURVIVED, FAILED, VOID, UNKNOWN = Verdict.SURVIVED, Verdict.FAILED, Verdict.VOID, Verdict.UNKNOWN

ROWS_OF_THE_TABLE: dict[str, tuple[Callable[[], Run], Verdict, str]] = {
    # survived
    "all is well": (run, SURVIVED, "survived"),
    "seen from the host": (host_vantage, SURVIVED, "survived"),
    "some attempts failed within the bound": (lambda: run(under__web=answers(failed=2)), SURVIVED, "survived"),
    "exactly at the bound": (lambda: run(under__web=answers(latency=0.5)), SURVIVED, "survived"),
    "a crash and a clean start": (crash, SURVIVED, "survived"),
    "a crash that met a waiting runner": (crash_while_awaited, SURVIVED, "survived"),
    "first try of a late turn": (lambda: late(12.0, 1), SURVIVED, "survived"),
    "last try began in time": (lambda: late(9.9, 7), SURVIVED, "survived"),
    # failed
    "too slow": (lambda: run(under__web=answers(latency=0.501)), FAILED, "out_of_bounds"),
    "too many errors": (lambda: run(under__web=answers(failed=3)), FAILED, "out_of_bounds"),
    "errors that were never started count": (
        lambda: run(under__web=answers(failed=3, failure="not_started")),
        FAILED,
        "out_of_bounds",
    ),
    "answers with a bad status": (
        lambda: run(under__web=[[0.0, 0.01, 500] for _ in range(20)]),
        FAILED,
        "out_of_bounds",
    ),
    "a number too small": (lambda: run(under__rows=rows(9.0)), FAILED, "out_of_bounds"),
    "a command that hung": (lambda: run(under__rows=rows(12.0, "timeout")), FAILED, "out_of_bounds"),
    "nobody answered and only latency counts": (
        lambda: only_p95(under__web=answers(failed=20)),
        FAILED,
        "out_of_bounds",
    ),
    "seen failing from the host": (lambda: host_vantage(under__web=answers(failed=20)), FAILED, "out_of_bounds"),
    "never recovered": (lambda: run(recovery__web=answers(10, failed=5)), FAILED, "recovery_failed"),
    "rows never came back": (lambda: run(recovery__rows=rows(0.0)), FAILED, "recovery_failed"),
    "recovered too late": (lambda: late(10.1, 3), FAILED, "recovery_failed"),
    "the undo failed": (lambda: with_receipt(undo_ok=False), FAILED, "not_recovered"),
    "something is left": (lambda: with_receipt(clean=False), FAILED, "not_recovered"),
    "a mount that nobody took away": (
        lambda: changed(
            "inventory",
            "inventory.undone",
            differences=[{"what": "mounts", "name": "/mnt", "before": None, "undone": "rw tmpfs"}],
        ),
        FAILED,
        "left_behind",
    ),
    "a condition ended it": (aborted, FAILED, "aborted"),
    "lost rows after a crash": (lambda: crash(recovery__rows=rows(3.0)), FAILED, "recovery_failed"),
    "did not start again": (lambda: crash(what="not_booted"), FAILED, "not_booted"),
    # void
    "setup failed": (lambda: stopped("setup.1", "setup_failed"), VOID, "setup_failed"),
    "unsupported": (lambda: stopped("setup.1", "unsupported"), VOID, "unsupported"),
    "load failed": (lambda: stopped("before.web", "load_failed"), VOID, "load_failed"),
    "apply failed": (lambda: stopped("under.web", "apply_failed"), VOID, "apply_failed"),
    "apply failed by its receipt": (lambda: with_receipt(apply_ok=False), VOID, "apply_failed"),
    "unsupported by its receipt": (lambda: with_receipt(missing=("program 'tc'",)), VOID, "unsupported"),
    "broken before": (
        lambda: stopped("before.rows", "broken_before", before__web=answers(failed=20)),
        VOID,
        "broken_before",
    ),
    "broken before, and the runner went on": (lambda: run(before__rows=rows(1.0)), VOID, "broken_before"),
    "broken before, seen from the host": (lambda: host_vantage(before__web=answers(failed=9)), VOID, "broken_before"),
    "nothing measured before": (lambda: run(before__web=[]), VOID, "measured_nothing"),
    "nothing sent before": (lambda: run(before__web=NOT_SENT), VOID, "measured_nothing"),
    "no number before": (lambda: run(before__rows=rows(None)), VOID, "measured_nothing"),
    "no latency before": (lambda: only_p95(before__web=answers(failed=20)), VOID, "measured_nothing"),
    "nothing measured under the fault": (lambda: run(under__web=[]), VOID, "measured_nothing"),
    "nothing sent under the fault": (lambda: run(under__web=NOT_SENT), VOID, "measured_nothing"),
    "nothing measured after": (lambda: run(recovery__rows=[]), VOID, "measured_nothing"),
    "a plan that measures nothing under the fault": (unmeasured_under, VOID, "measured_nothing"),
    "a crash that nothing follows": (lambda: run(crash_plan(boot=False)), VOID, "measured_nothing"),
    "the watchdog was faster": (lambda: stopped("under.rows", "ttl"), VOID, "ttl"),
    "a condition ended it before the fault acted": (lambda: aborted(acted=0), VOID, "never_acted"),
    "a condition ended it without a receipt": (lambda: aborted(in_force=None), VOID, "receipt_missing"),
    "a schedule between two looks": (lambda: scheduled(40.0, 50.0), VOID, "missed"),
    "not in force": (lambda: with_receipt(in_force=False), VOID, "not_in_force"),
    "never acted": (lambda: with_receipt(acted=0), VOID, "never_acted"),
    "a signal that init ignores": (lambda: crash(in_force=False, what="exit"), VOID, "not_in_force"),
    "no receipt": (lambda: run(receipts={}), VOID, "receipt_missing"),
    "no judgement of force": (lambda: with_receipt(in_force=None), VOID, "receipt_missing"),
    "no count": (lambda: with_receipt(acted=None), VOID, "receipt_missing"),
    "no look after the undo": (lambda: with_receipt(clean=None), VOID, "receipt_missing"),
    "no word of the undo": (lambda: with_receipt(undo_ok=None), VOID, "receipt_missing"),
    "no fault": (no_fault, VOID, "no_fault"),
    "guest says it holds": (
        lambda: changed("probe", "under.web", samples=answers(failed=20)),
        VOID,
        "guest_disagrees",
    ),
    "guest has other metrics": (lambda: changed("probe", "under.web", metrics=BROKEN), VOID, "guest_disagrees"),
    "guest forgot a metric": (lambda: changed("recovered", "recovery.rows", metrics={}), VOID, "guest_disagrees"),
    "guest stopped without cause": (lambda: stopped("before.rows", "broken_before"), VOID, "guest_disagrees"),
    "guest measured, it says": (lambda: changed("probe", "under.web", measured=False), VOID, "guest_disagrees"),
    # unknown
    "an inventory that was not taken": (lambda: without("inventory", "inventory.undone"), UNKNOWN, "incomplete"),
    "interrupted in the guest": (lambda: stopped("under.rows", "interrupted"), UNKNOWN, "interrupted"),
    "interrupted on the host": (interrupted_on_host, UNKNOWN, "interrupted"),
    "lost by an interruption": (lambda: lost("interrupted"), UNKNOWN, "interrupted"),
    "deadline in the guest": (lambda: stopped("under.rows", "deadline"), UNKNOWN, "deadline"),
    "deadline on the host": (lambda: lost("deadline"), UNKNOWN, "deadline"),
    **{code: ((lambda code=code: lost(code)), UNKNOWN, code) for code in HOST_LOSSES},  # type: ignore[misc]
    "lost in a new way": (lambda: lost("struck_by_lightning"), UNKNOWN, "lost"),
    "stopped in a new way": (lambda: stopped("under.rows", "bored"), UNKNOWN, "lost"),
    "runner error": (lambda: stopped("under.rows", "runner_error"), UNKNOWN, "runner_error"),
    "never began": (lambda: (guest_plan(), [], {}), UNKNOWN, "no_end"),
    "ended in the middle": (lambda: (guest_plan(), Story(guest_plan()).until("undo").events, {}), UNKNOWN, "no_end"),
    "a measurement is missing": (lambda: without("probe", "under.web"), UNKNOWN, "incomplete"),
    "a recovery is missing": (lambda: without("recovered", "recovery.rows"), UNKNOWN, "incomplete"),
    "the act is missing": (lambda: without("applied", "apply"), UNKNOWN, "incomplete"),
    "the undo is missing": (lambda: without("undone", "undo"), UNKNOWN, "incomplete"),
    "nobody knows whether it started again": (lambda: crash(what="exit"), UNKNOWN, "incomplete"),
    "a gap in the guest's events": (
        lambda: (lambda r: (r[0], [e for e in r[1] if e.get("n") != 5], r[2]))(run()),
        UNKNOWN,
        "events_malformed",
    ),
    "a line that is no event": (
        lambda: (lambda r: (r[0], [*r[1], {"event": "malformed", "on": "host", "line": 9}], r[2]))(run()),
        UNKNOWN,
        "events_malformed",
    ),
    "samples of another kind": (lambda: changed("probe", "under.web", samples=rows()), UNKNOWN, "events_malformed"),
    "samples without times": (
        lambda: changed("probe", "under.web", samples=[[None, None, "timeout"]]),
        UNKNOWN,
        "events_malformed",
    ),
    "no samples at all": (lambda: changed("probe", "under.web", samples=None), UNKNOWN, "events_malformed"),
    "another probe's event": (lambda: changed("probe", "under.web", probe="rows"), UNKNOWN, "events_malformed"),
    "a step that is not planned": (lambda: changed("probe", "under.web", step="under"), UNKNOWN, "events_malformed"),
    "a measurement of the host, by the guest": (
        lambda: (lambda r: (guest_plan(vantage="host"), r[1], r[2]))(run()),
        UNKNOWN,
        "events_malformed",
    ),
    "a recovery without its time": (
        lambda: changed("recovered", "recovery.web", seconds=None),
        UNKNOWN,
        "events_malformed",
    ),
    "no clock": (lambda: changed("undone", "undo", t=None), UNKNOWN, "events_malformed"),
}


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
