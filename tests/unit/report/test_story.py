"""From recorded folders to the model: what happened is where it was, and nothing is made up."""

import pytest

from stormcell.report.chain import NAMES as LINKS
from stormcell.report.evidence import Timeline
from stormcell.report.load import load_report, load_run
from stormcell.report.measured import MOST_VALUES
from stormcell.report.model import Run
from stormcell.report.timeline import MOST_DOTS
from stormcell.spec.errors import SpecError
from tests.unit.report.recorded import DATA, NAMES, VERDICTS, everything, recorded, with_events


def drawn_of(run: Run) -> Timeline:
    assert run.timeline is not None
    return run.timeline


@pytest.mark.parametrize("name", NAMES)
def test_a_run_has_the_verdict_of_the_judge_and_its_reason_first(name):
    run = recorded(name)
    assert run.verdict == VERDICTS[name]
    assert run.reasons and run.reasons[0].text
    assert [link.name for link in run.chain] == list(LINKS)


@pytest.mark.parametrize("name", NAMES)
def test_everything_lies_within_the_timeline_and_in_order(name):
    drawn = recorded(name).timeline
    assert drawn is not None
    for before, after in zip(drawn.phases, drawn.phases[1:], strict=False):
        assert before.end <= after.begin + 1e-6
    for lane in drawn.faults:
        for span in lane.spans:
            assert drawn.begin <= span.begin <= span.end <= drawn.end + 1e-6
    for probe in drawn.probes:
        assert len(probe.dots) == probe.samples
        for dot in probe.dots:
            assert drawn.begin - 1e-6 <= dot.at <= drawn.end


def test_the_chain_shows_where_it_broke():
    def states(name):
        return {link.name: link.state for link in recorded(name).chain}

    assert set(states("late-by-turns").values()) == {"yes"}
    assert states("slow-database-first")["under"] == "no"
    assert states("no-names-fixed")["acted"] == "no"
    crash = states("power-cut-fixed")
    assert (crash["under"], crash["clean"]) == ("none", "none")
    stopped = states("broken-before")
    assert stopped["before"] == "no" and set(stopped.values()) == {"no", "none"}
    lost = states("cut-off")
    assert (lost["before"], lost["in force"], lost["after"], lost["clean"]) == ("yes", "yes", "unknown", "unknown")


def test_pulses_and_the_levels_of_a_ramp_are_spans_of_their_own():
    drawn = drawn_of(recorded("late-by-turns"))
    pulsed, ramp = drawn.faults
    assert [span.name for span in pulsed.spans] == ["", ""]
    assert pulsed.spans[0].end < pulsed.spans[1].begin
    assert [span.name for span in ramp.spans] == ["90%", "60%", "30%"]
    assert [span.level for span in ramp.spans] == [pytest.approx(share / 3) for share in (1, 2, 3)]


def test_a_fault_of_a_plain_experiment_is_in_force_from_its_act_to_its_undo():
    drawn = drawn_of(recorded("slow-database-first"))
    (span,) = drawn.faults[0].spans
    under = next(phase for phase in drawn.phases if phase.name == "under")
    assert span.begin < under.begin and under.end < span.end
    slow = [dot for dot in drawn.probes[0].dots if span.begin <= dot.at <= span.end]
    assert sum(not dot.ok for dot in slow) == 7 and all(dot.seconds is None for dot in slow if not dot.ok)


def test_an_abort_a_crash_and_a_lost_end_are_marked():
    assert [mark.kind for mark in drawn_of(recorded("stopped-early")).marks] == ["abort"]
    assert [mark.kind for mark in drawn_of(recorded("power-cut-fixed")).marks] == ["crash", "booted"]
    (lost,) = drawn_of(recorded("cut-off")).marks
    assert (lost.kind, lost.text) == ("lost", "the record ends here")


def test_tries_at_recovery_that_were_not_kept_are_told():
    lane = next(lane for lane in drawn_of(recorded("power-cut-fixed")).probes if lane.tries)
    (tries,) = lane.tries
    assert tries.name == "12 earlier tries did not hold"
    assert tries.end - tries.begin == pytest.approx(6.78, abs=0.1)


def test_a_distribution_holds_what_was_answered_and_counts_the_rest():
    (spread,) = recorded("slow-database-first").spreads
    before, under, after = spread.rows
    assert [row.phase for row in spread.rows] == ["before", "under", "recovery"]
    assert (under.attempts, under.answered, under.succeeded) == (12, 5, 5)
    assert under.outcomes == (("timeout", 7),)
    assert under.p95 == under.values[-1] and list(under.values) == sorted(under.values)
    assert {limit.text: limit.holds for limit in under.limits} == {">= 95%": False, "<= 2500ms": False, "<= 1s": False}
    assert before.succeeded == before.attempts and after.p50 is not None


def test_the_numbers_that_moved_are_the_fault_s_own_first():
    (proof,) = recorded("slow-database-first").proofs
    first = proof.moved[0]
    assert first.name.startswith("tc sc1-out0") and first.before is None and first.undone is None
    packets = next(item for item in proof.moved if item.name == "tc sc1-out0 packets")
    assert (packets.during, packets.after) == (0, proof.acted)
    assert proof.undo[0].startswith("stormcell-guest nft run <<< 'delete table")


def test_a_run_that_was_cut_off_has_its_receipts_from_the_events():
    run = recorded("cut-off")
    (proof,) = run.proofs
    assert proof.kind == "net.delay" and proof.in_force is True and proof.acted is None and proof.undo
    assert any("never wrote a result" in why.text for why in run.reasons)
    without = load_report([(DATA / "cut-off", "")]).runs[0]
    assert without.timeline is not None and without.timeline.faults[0].spans


def test_a_folder_that_is_none_becomes_a_problem_and_the_others_are_told(tmp_path):
    report = load_report([(tmp_path, ""), (DATA / "no-names-fixed", "")])
    assert [run.name for run in report.runs] == ["no-names-fixed"]
    assert report.problems[0].error == "SpecError" and str(tmp_path) in report.problems[0].text
    with pytest.raises(SpecError):
        load_run(tmp_path)


def test_a_run_that_never_began_is_unknown_and_has_no_timeline(tmp_path):
    (tmp_path / "plan.json").write_text((DATA / "cut-off" / "plan.json").read_text())
    run = load_run(tmp_path)
    assert run.verdict == "unknown" and run.timeline is None
    assert "never began" in run.cannot_know[0]


def test_what_needs_a_reader_comes_first():
    assert [run.verdict for run in everything().runs] == [
        "failed", "failed", "failed", "unknown", "void", "void", "survived", "survived"
    ]  # fmt: skip


def test_many_samples_are_thinned_and_it_is_said():
    def many(event):
        if event["event"] == "probe" and event["step"] == "under.checkout":
            event["samples"] = [[i / 1000, 0.01 + i / 1e5, 201 if i % 100 else 500] for i in range(5000)]
        return event

    run = with_events("slow-database-first", many)
    lane = drawn_of(run).probes[0]
    assert lane.samples == 5015
    under = [dot for dot in lane.dots if dot.outcome in ("201", "500") and dot.seconds is not None and dot.at > 6]
    assert len(under) <= MOST_DOTS + 3 and sum(not dot.ok for dot in under) == 50
    row = run.spreads[0].rows[1]
    assert len(row.values) == MOST_VALUES and row.values[0] == 0.01 and row.values[-1] == pytest.approx(0.05999)
    assert row.attempts == 5000 and any("of 5,015 samples" in said for said in run.cannot_know)
