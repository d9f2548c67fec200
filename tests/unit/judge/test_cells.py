"""Many runs together: shares, quantiles, and what they rest on too little for."""

import json

import pytest

from stormcell.judge import cells
from stormcell.judge.campaign import campaign
from stormcell.judge.repeats import Run, Sight, sights
from stormcell.spec.matrix import AxisResult, CampaignResult, RunLine
from stormcell.spec.verdict import Verdict
from tests.unit.judge.judge_story import Story, guest_plan


def run(number, verdict, state="finished", latencies=(), attempts=0):
    line = RunLine(id=f"r{number}", seed=number, repeat=1, state=state, verdict=verdict)
    seen = (
        Sight("web", "http", "under", "guest", attempts, len(latencies), tuple(latencies), {}),
        Sight("rows", "command", "under", "guest", 0, 0, (), {"number": float(number)}),
        Sight("web", "http", "recovery", "guest", 0, 0, (), {"recovered_after": 0.1 * number}),
    )
    return Run(line, seen if verdict in (Verdict.SURVIVED, Verdict.FAILED) else ())


def many(survived, failed, void=0, lost=0, at=None, name="cell"):
    verdicts = [Verdict.SURVIVED] * survived + [Verdict.FAILED] * failed + [Verdict.VOID] * void
    runs = [run(n, v, latencies=[0.1 + n / 100, 0.2], attempts=4) for n, v in enumerate(verdicts)]
    runs += [run(99, None, "lost")] * lost
    return cells.cell(name, "d" * 12, at or {}, ["net.delay"], runs)


def summary(cell, probe, phase, metric):
    (found,) = [s for s in cell.summaries if (s.probe, s.phase, s.metric) == (probe, phase, metric)]
    return found


def test_void_and_lost_runs_are_in_no_share():
    cell = many(8, 2, void=3, lost=1)
    assert (cell.survived.good, cell.survived.total) == (8, 10)
    assert cell.verdict is Verdict.FAILED
    assert cell.counts == {"survived": 8, "failed": 2, "void": 3, "unknown": 0, "lost": 1, "unfinished": 0}
    assert summary(cell, "rows", "under", "number").runs == 10
    assert any("3 void, 1 lost" in caution for caution in cell.cautions)


@pytest.mark.parametrize(("survived", "failed", "few"), [(1, 0, True), (3, 0, True), (4, 0, False), (5, 5, True)])
def test_too_few_runs_are_said_to_be(survived, failed, few):
    cell = many(survived, failed)
    assert cell.survived.few is few
    assert any("too few runs" in caution for caution in cell.cautions) is few


def test_latencies_are_pooled_and_drawn_by_run():
    cell = many(8, 0)
    rate = summary(cell, "web", "under", "success_rate")
    assert (rate.value, rate.samples) == (0.5, 32)
    p95 = summary(cell, "web", "under", "p95")
    assert p95.value == 0.2 and p95.samples == 16
    assert p95.note == "of fewer than 20 answers it is the largest one"
    p50 = summary(cell, "web", "under", "p50")
    assert p50.low is not None and p50.value is not None and p50.high is not None
    assert p50.low <= p50.value <= p50.high
    assert p50.note == "" and p50.unit == "duration"
    assert "of 3 runs" in summary(many(3, 0), "web", "under", "p50").note
    assert "of one run" in summary(many(1, 0), "web", "under", "p50").note


def test_recovery_is_summed_up_by_its_time():
    cell = many(7, 0)
    assert summary(cell, "web", "recovery", "recovered_after").value == pytest.approx(0.3)


def test_the_same_runs_give_the_same_matrix():
    assert many(5, 3) == many(5, 3)


AXIS = AxisResult(name="delay", path="fault.delay", labels=("1s", "2s", "3s"))


def whole(*found):
    return campaign("sweep", "?", [AXIS], found)


def test_a_difference_is_told_from_chance_and_from_too_few_runs():
    result = whole(
        many(20, 0, at={"delay": "1s"}, name="a"),
        many(2, 18, at={"delay": "2s"}, name="b"),
        many(3, 0, at={"delay": "3s"}, name="c"),
    )
    assert result.verdict is Verdict.FAILED
    first, second = result.comparisons
    assert (first.of, first.against, first.differs, first.too_few) == ("b", "a", True, False)
    assert first.difference == pytest.approx(-0.9) and first.high is not None and first.high < -0.6
    assert not second.differs and not second.too_few
    few = whole(many(2, 0, at={"delay": "1s"}, name="a"), many(0, 2, at={"delay": "2s"}, name="b"))
    assert few.comparisons[0].too_few and not few.comparisons[0].differs


def test_the_verdict_of_a_campaign_is_its_worst_cell_and_what_is_missing_is_unknown():
    assert whole(many(4, 0), many(4, 1)).verdict is Verdict.FAILED
    assert whole(many(4, 0), many(4, 0, void=1)).verdict is Verdict.VOID
    lost = whole(many(4, 0, lost=1))
    assert lost.verdict is Verdict.UNKNOWN
    assert "unknown: 1 of 1 cells, 1 of their 5 runs" in [reason.text for reason in lost.reasons]
    unfinished = cells.cell("x", "d", {}, [], [run(1, Verdict.SURVIVED), run(2, None, "unfinished")])
    result = campaign("sweep", "?", [], [unfinished], info={"stopped": "interrupted"})
    assert result.verdict is Verdict.UNKNOWN and not result.complete
    assert any("interrupted" in reason.text for reason in result.reasons)


def test_a_result_survives_json():
    result = whole(many(4, 1, at={"delay": "1s"}), many(4, 1, at={"delay": "2s"}, name="other"))
    assert CampaignResult.model_validate(json.loads(json.dumps(result.model_dump(mode="json")))) == result


def test_what_a_run_measured_is_read_from_its_events():
    plan = guest_plan()
    found = sights(plan, Story(plan).whole().events, {})
    assert {(sight.phase) for sight in found} == {"before", "under", "recovery"}
    for sight in found:
        if sight.phase == "recovery":
            assert sight.metrics["recovered_after"] is not None
