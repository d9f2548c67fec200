"""Metrics from samples, bounds from metrics."""

import statistics
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stormcell.guest import measure
from stormcell.spec.probe import METRICS, tolerances


def bounds(kind: str, **expect: Any) -> list[dict[str, Any]]:
    return [bound.model_dump() for bound in tolerances(kind, expect)]


def answered(*latencies: float, status: int = 200) -> list[list[Any]]:
    return [[number / 10, latency, status] for number, latency in enumerate(latencies)]


COMMAND = [0.0, 0.25, 3, {"number": 12.5, "matches": True, "out": "", "err": ""}]


# quantiles


@pytest.mark.parametrize(
    ("per_cent", "expected"),
    [(1, 15), (30, 20), (40, 20), (50, 35), (60, 35), (95, 50), (99, 50), (100, 50)],
)
def test_nearest_rank_as_in_the_text_book(per_cent: int, expected: float) -> None:
    assert measure.quantile([35, 20, 15, 50, 40], per_cent) == expected


def test_a_quantile_of_nothing_is_nothing() -> None:
    assert measure.quantile([], 50) is None


@given(st.lists(st.floats(0, 100), min_size=1), st.integers(1, 100))
def test_a_quantile_is_a_measured_value_that_enough_do_not_exceed(values: list[float], per_cent: int) -> None:
    found = measure.quantile(values, per_cent)
    assert found in values
    assert found is not None
    assert sum(value <= found for value in values) * 100 >= per_cent * len(values)
    assert sum(value < found for value in values) * 100 < per_cent * len(values)


@given(st.lists(st.floats(0, 100), min_size=1))
def test_the_middle_is_the_low_median(values: list[float]) -> None:
    assert measure.quantile(values, 50) == statistics.median_low(values)


# metrics


@pytest.mark.parametrize("kind", METRICS)
def test_metrics_are_those_of_the_vocabulary(kind: str) -> None:
    samples = {
        "http": answered(0.1),
        "tcp": [[0.0, 0.1, "connected"]],
        "command": [COMMAND],
        "file": [[0.0, None, "exists", {"size": 5, "matches": False}]],
    }[kind]
    assert set(measure.metrics(kind, {}, samples)) == set(METRICS[kind])
    assert set(measure.metrics(kind, {}, [])) == set(METRICS[kind])


def test_every_attempt_that_was_due_counts() -> None:
    samples = [*answered(0.1, 0.2), [0.3, None, "timeout"], [0.4, None, "not_started"]]
    found = measure.metrics("http", {}, samples)
    assert (found["success_rate"], found["sent"], found["max"], found["p50"]) == (0.5, 3.0, 0.2, 0.1)


@pytest.mark.parametrize(
    ("status", "wanted", "rate"),
    [(200, [], 1.0), (302, [], 1.0), (399, [], 1.0), (400, [], 0.0), (500, [500], 1.0), (200, [500, 503], 0.0)],
)
def test_statuses(status: int, wanted: list[int], rate: float) -> None:
    assert measure.metrics("http", {"status": wanted}, answered(0.1, status=status))["success_rate"] == rate


def test_the_latency_of_a_refused_answer_is_measured_all_the_same() -> None:
    found = measure.metrics("http", {}, answered(0.7, status=503))
    assert (found["success_rate"], found["p95"]) == (0.0, 0.7)


def test_nobody_answered() -> None:
    found = measure.metrics("tcp", {}, [[0.0, None, "refused"]])
    assert (found["success_rate"], found["sent"], found["p50"], found["max"]) == (0.0, 1.0, None, None)


def test_a_command_that_did_not_end_has_no_result() -> None:
    found = measure.metrics("command", {}, [[0.0, 5.0, "timeout", COMMAND[3]]])
    assert found == {"exit_code": None, "number": None, "matches": None, "seconds": 5.0}
    assert measure.metrics("command", {}, [COMMAND]) == {
        "exit_code": 3.0,
        "number": 12.5,
        "matches": 1.0,
        "seconds": 0.25,
    }


def test_a_file_that_may_not_be_looked_at_is_neither_there_nor_absent() -> None:
    for outcome, exists in (("exists", 1.0), ("absent", 0.0), ("EACCES", None)):
        assert measure.metrics("file", {}, [[0.0, None, outcome, {"size": None}]])["exists"] == exists


# bounds


@pytest.mark.parametrize(
    ("text", "value", "holds"),
    [
        ("<= 5", 5, True), ("<= 5", 5.01, False), ("< 5", 5, False), (">= 5", 5, True), ("> 5", 5, False),
        ("== 5", 5, True), ("!= 5", 5, False), ("!= 5", 4, True), ("5", 5, True),
    ],
)  # fmt: skip
def test_operators(text: str, value: float, holds: bool) -> None:
    assert measure.holds({"number": value}, bounds("command", number=text)) is holds


@pytest.mark.parametrize("text", ["<= 5", ">= 5", "!= 5", "== 5"])
def test_what_was_not_measured_holds_nothing(text: str) -> None:
    assert not measure.holds({"number": None}, bounds("command", number=text))


def test_no_bounds_hold_nothing() -> None:
    assert not measure.holds({"number": 1.0}, [])


def test_all_bounds_must_hold() -> None:
    wanted = bounds("http", success_rate=[">= 50%", "<= 90%"], p95="<= 1s")
    assert measure.holds({"success_rate": 0.7, "p95": 1.0}, wanted)
    assert not measure.holds({"success_rate": 1.0, "p95": 1.0}, wanted)


@given(st.integers(1, 2000), st.data())
def test_a_percentage_means_what_it_says(total: int, data: st.DataObject) -> None:
    good = data.draw(st.integers(0, total))
    per_cent = data.draw(st.integers(0, 100))
    samples = answered(*[0.1] * good) + [[0.0, None, "refused"]] * (total - good)
    found = measure.metrics("http", {}, samples)
    assert measure.holds(found, bounds("http", success_rate=f">= {per_cent}%")) == (good * 100 >= per_cent * total)


# measured


def test_what_counts_as_measured() -> None:
    def measured(kind: str, phase: str, samples: list[list[Any]], **expect: Any) -> bool:
        return measure.measured(kind, phase, samples, measure.metrics(kind, {}, samples), bounds(kind, **expect))

    dark = [[0.0, None, "refused"]]
    assert measured("http", "before", answered(0.1), p95="<= 1s")
    assert not measured("http", "before", [], p95="<= 1s")
    assert not measured("http", "under", [[0.0, None, "not_started"]], success_rate=">= 1%")
    assert not measured("http", "before", dark, p95="<= 1s")
    assert measured("http", "before", dark, p95="<= 1s", success_rate=">= 1%")
    assert measured("http", "under", dark, p95="<= 1s"), "under the fault no answer is an answer"
    assert not measured("command", "before", [[0.0, 5.0, "timeout", {}]], number="1")


# recovery

RATE = {"rate": 4.5, "duration": 6.0, "count": None, "timeout": 1.0}


def test_a_try_at_recovery_is_short() -> None:
    spec, kept, note = measure.for_recovery("http", RATE, bounds("http", success_rate=">= 90%", sent=">= 20"))
    assert (spec["count"], spec["rate"]) == (5, None)
    assert [bound["metric"] for bound in kept] == ["success_rate"]
    assert "5 attempts" in note


@pytest.mark.parametrize(("rate", "count"), [(0.1, 3), (3.0, 3), (7.2, 8), (500.0, 20)])
def test_how_short(rate: float, count: int) -> None:
    spec, _, _ = measure.for_recovery("tcp", {**RATE, "rate": rate}, bounds("tcp", success_rate="100%"))
    assert spec["count"] == count


@pytest.mark.parametrize(("kind", "spec"), [("http", {**RATE, "rate": None, "count": 4}), ("command", {"run": ["x"]})])
def test_what_is_short_already_stays(kind: str, spec: dict[str, Any]) -> None:
    wanted = bounds(kind, **({"sent": ">= 1"} if kind == "http" else {"exit_code": 0}))
    assert measure.for_recovery(kind, spec, wanted) == (spec, wanted, "")


def test_a_try_is_given_up_once_it_cannot_hold() -> None:
    wanted = bounds("http", success_rate=">= 80%", p95="<= 1s")
    lost = [[0.0, None, "timeout"]]
    assert measure.could_hold("http", {}, lost, 5, wanted)
    assert not measure.could_hold("http", {}, lost * 2, 5, wanted)
    assert measure.could_hold("http", {}, lost * 9, 10, bounds("http", p95="<= 1s"))
