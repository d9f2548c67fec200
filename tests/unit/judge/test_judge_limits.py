"""What a run cannot know is said, and only where it applies."""

from typing import Any

import pytest

from stormcell.judge.statistics import smallest_count, wilson
from stormcell.judge.verdict import judge
from stormcell.judge.wording import GUEST_TIME, percent, quantity, seconds, starred
from stormcell.machine.sealed.argv import SHIFT
from stormcell.spec.plan import Plan, PlannedProbe
from stormcell.spec.probe import tolerances
from tests.unit.judge.judge_story import HTTP, Story, answers, crash_plan, guest_plan, receipt


def told(plan: Plan | None = None, exited: bool = False, **samples: Any) -> str:
    plan = plan or guest_plan()
    story = Story(plan, **samples)
    if exited:
        story.until("undo")
        story.guest("load", load="writer", state="exited", exit=3)
    else:
        story.whole()
    return "\n".join(judge(plan, story.events, receipt(plan)).cannot_know)


def test_probes_that_all_stand_inside_do_not_see_the_outside() -> None:
    assert "Every probe stood inside the guest" in told()
    assert "Every probe stood inside the guest" not in told(guest_plan(vantage="host"))


def test_a_probe_from_the_host_looks_through_the_forwarded_port() -> None:
    assert "'web' looked from the host" in told(guest_plan(vantage="host"))


def test_a_handshake_from_the_host_proves_little() -> None:
    plan = guest_plan()
    spec = {"address": "web:80", "count": 3, "rate": None, "timeout": 1.0}
    probes = {**plan.probes, "door": PlannedProbe(kind="tcp", vantage="host", spec=spec)}
    assert "does not show that anything listens" in told(plan.model_copy(update={"probes": probes}))


def test_a_quantile_of_few_answers_is_their_largest() -> None:
    web = tolerances("http", {"success_rate": ">= 50%", "p95": "<= 500ms", "p99": "<= 1s", "p50": "<= 1s"})
    text = told(guest_plan(web=web), under__web=answers(19))
    assert "p95 of 'web' under the fault rests on 19 answers: of fewer than 20 it is the largest" in text
    assert "p99 of 'web' under the fault rests on 19 answers: of fewer than 100" in text
    assert "p50" not in text
    assert "p95 of 'web' under the fault" not in told(guest_plan(web=web), under__web=answers(20))


def test_a_rate_that_few_attempts_cannot_show() -> None:
    text = told()
    assert "20 attempts of 'web' under the fault: a true success rate down to 83.89 % would look the same" in text


def test_a_sealed_run_says_what_its_times_count_and_what_its_machine_has_not() -> None:
    text = told(guest_plan().model_copy(update={"sealed": True}))
    assert f"each instruction takes {2**SHIFT} ns" in text and f"{2**SHIFT} ns for each" in GUEST_TIME
    assert "one processor, no network card and nothing outside" in text and "Its disk is memory" in text
    assert "is one schedule of many" in text and "chance effects need repeats" not in text
    live = told()
    assert "2 ns" not in live and "schedule" not in live and "chance effects need repeats" in live


def test_the_result_of_a_sealed_run_marks_its_times() -> None:
    story = Story(guest_plan())
    story.whole()
    for sealed in (True, False):
        plan = story.plan.model_copy(update={"sealed": sealed})
        assert judge(plan, story.events, receipt(plan)).instruction_time is sealed
        assert judge(plan, [object()], receipt(plan)).instruction_time is sealed  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("p95 2.915 s, wanted <= 2500ms", "p95 2.915 s*, wanted <= 2500ms"),
        ("asked 2 s, had 1,234.5 s", "asked 2 s*, had 1,234.5 s*"),
        ("12.3 ms (n = 8)", "12.3 ms* (n = 8)"),
        ("3 us", "3 us*"),
        ("1e+05 s", "1e+05 s*"),
        ("7 system calls", "7 system calls"),
        ("8 snapshots, 2 ms*", "8 snapshots, 2 ms*"),
        ("v1.2 s", "v1.2 s"),
        ("2 ns for each", "2 ns for each"),
    ],
)
def test_a_star_stands_behind_measured_times_alone(text: str, marked: str) -> None:
    assert starred(text) == marked


def test_resolution_duration_recovery_and_chance() -> None:
    text = told()
    assert "'web' sends one attempt in 100 ms" in text
    assert "The fault lasted" in text
    assert "Recovery was looked for every 500 ms" in text
    assert "(after the undo: web 1.2 s, rows 1.2 s)" in text
    assert "Measured once in each phase, so that other moments were not seen: rows." in text
    assert "one run with seed 7" in text


def test_the_faults_own_words_are_kept() -> None:
    assert "It rained." in told()
    assert "It rained." in told(crash_plan())


def test_a_load_that_left_early() -> None:
    assert "Load 'writer' ended by itself with exit code 3" in told(exited=True)


# statistics


@pytest.mark.parametrize(
    ("good", "total", "low", "high"),
    # Newcombe 1998, table I, method 3
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_interval_as_published(good: int, total: int, low: float, high: float) -> None:
    found = wilson(good, total)
    assert found is not None
    assert found == pytest.approx((low, high), abs=5e-5)


def test_wilson_of_nothing_and_of_all() -> None:
    assert wilson(0, 0) is None
    found = wilson(30, 30)
    assert found is not None
    assert found[1] == 1.0
    assert found[0] == pytest.approx(0.8865, abs=5e-5)


def test_smallest_count_is_the_first_whose_quantile_is_not_the_largest() -> None:
    from stormcell.guest.measure import quantile

    for per_cent in (50, 95, 99):
        count = smallest_count(per_cent)
        assert quantile(range(count), per_cent) != count - 1
        assert quantile(range(count - 1), per_cent) == count - 2


# wording


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 s"), (0.00025, "250 us"), (0.0123, "12.3 ms"), (0.9999, "0.9999 s"), (12.5, "12.5 s")],
)
def test_seconds(value: float, text: str) -> None:
    assert seconds(value) == text


@pytest.mark.parametrize(("value", "text"), [(1.0, "100 %"), (0.99999, "99.99 %"), (0.9875, "98.75 %"), (0, "0 %")])
def test_a_rate_below_one_never_reads_as_hundred(value: float, text: str) -> None:
    assert percent(value) == text


def test_quantities_have_their_units() -> None:
    assert quantity("http", "p95", None) == "not measured"
    assert quantity("http", "sent", 3.0) == "3"
    assert quantity("file", "exists", 0.0) == "false"
    assert quantity("file", "size", 4096.0) == "4,096 B"
    assert quantity("http", "success_rate", 0.5) == "50 %"
    assert HTTP["rate"] == 10.0
