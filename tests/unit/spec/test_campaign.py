"""A campaign as it is written, and the runs that come of it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from stormcell.spec.campaign import Campaign, Find
from stormcell.spec.expansion import BadPath, axes, cells, executions, resolve, with_value
from stormcell.spec.experiment import NAME
from stormcell.spec.quantity import Quantity, between, quantity

EXPERIMENT: dict[str, Any] = {
    "name": "slow",
    "template": "base",
    "steady_state": [
        {"name": "alive", "command": {"run": "true"}, "expect": {"exit_code": 0}},
        {"name": "web", "http": {"url": "http://127.0.0.1/", "count": 2}, "expect": {"p95": "<= 1s"}},
    ],
    "fault": {"kind": "net.delay", "device": "lo", "delay": "100ms"},
}


def campaign(**fields):
    return Campaign.model_validate({"campaign": "sweep", "experiment": EXPERIMENT, **fields})


def expanded(**fields):
    return cells(EXPERIMENT, axes(campaign(**fields)))


def test_every_combination_has_a_name_that_says_what_it_is():
    found = expanded(matrix={"fault.delay": ["100ms", "1s"], "steady_state.web.expect.p95": ["<= 2s"]})
    assert [cell.name for cell in found] == ["slow.delay-100ms.p95-_2s", "slow.delay-1s.p95-_2s"]
    assert found[1].at == {"delay": "1s", "p95": "<= 2s"}
    assert found[1].data["fault"] == {"kind": "net.delay", "device": "lo", "delay": "1s"}
    assert found[1].data["steady_state"][1]["expect"] == {"p95": "<= 2s"}
    assert found[1].data["steady_state"][0] == EXPERIMENT["steady_state"][0]


def test_whole_faults_are_varied_by_name():
    found = expanded(matrix={"fault": {"slow": {"kind": "net.delay", "delay": "1s"}, "dark": {"kind": "net.drop"}}})
    assert [cell.name for cell in found] == ["slow.fault-slow", "slow.fault-dark"]
    assert found[1].data["fault"] == {"kind": "net.drop"}


def test_templates_are_an_axis_and_go_by_their_file():
    found = expanded(templates=["a/orders.yaml", "base"])
    assert [cell.name for cell in found] == ["slow.template-orders", "slow.template-base"]
    assert [cell.data["template"] for cell in found] == ["a/orders.yaml", "base"]
    apart = expanded(templates=["a/orders.yaml", "b/orders.yaml"])
    assert [cell.name for cell in apart] == ["slow.template-a_orders.yaml", "slow.template-b_orders.yaml"]


def test_axes_that_end_alike_are_told_apart():
    matrix = {"faults.a.delay": ["1s"], "faults.b.delay": ["2s"], "recovery.within": ["1s"]}
    assert [axis.name for axis in axes(campaign(matrix=matrix))] == ["a.delay", "b.delay", "within"]


def test_repeats_take_turns_and_have_seeds_of_their_own():
    variants = expanded(matrix={"fault.delay": ["1s", "2s"]})
    runs = executions(variants, (), 2, base_seed=7)
    assert [(run.cell.at["delay"], run.seed) for run in runs] == [("1s", 7), ("2s", 7), ("1s", 8), ("2s", 8)]
    runs = executions(variants[:1], (3, 4), 2)
    assert [(run.seed, run.repeat) for run in runs] == [(3, 1), (4, 1), (3, 2), (4, 2)]
    assert len({run.id for run in runs}) == 4


def test_ids_are_of_the_content_and_not_of_the_name():
    one, other = expanded(matrix={"fault.delay": ["100ms"]}), expanded(matrix={"fault": {"x": EXPERIMENT["fault"]}})
    assert one[0].name != other[0].name
    assert one[0].digest == other[0].digest == expanded()[0].digest
    assert one[0].digest != expanded(matrix={"fault.delay": ["200ms"]})[0].digest


@given(
    st.lists(st.text(min_size=1, max_size=40), min_size=1, max_size=4, unique=True),
    st.lists(st.integers(-5, 10**30), min_size=1, max_size=4, unique=True),
    st.integers(1, 3),
)
def test_whatever_the_values_names_are_valid_unique_and_stable(texts, numbers, repeats):
    found = [expanded(matrix={"question": texts, "fault.loss": numbers}) for _ in range(2)]
    assert found[0] == found[1]
    names = [cell.name for cell in found[0]]
    assert len(names) == len(texts) * len(numbers) == len(set(names))
    assert all(re.match(NAME, name) for name in names)
    ids = [run.id for run in executions(found[0], (), repeats)]
    assert len(ids) == len(set(ids)) == len(names) * repeats


paths = st.sampled_from(["name", "fault.delay", "fault.new", "recovery.within", "steady_state.web.expect.p95"])


@given(paths, st.one_of(st.integers(), st.text(), st.none(), st.dictionaries(st.text(), st.integers())))
def test_a_value_that_was_put_there_is_there_and_nothing_else_changed(path, value):
    place = resolve(EXPERIMENT, path, ())
    changed = with_value(EXPERIMENT, place, value)
    node = changed
    for key in place:
        node = node[key]
    assert node == value
    if path != "fault.new" and path != "recovery.within":
        original: Any = EXPERIMENT
        for key in place:
            original = original[key]
        assert with_value(changed, place, original) == EXPERIMENT


@pytest.mark.parametrize(
    ("path", "said"),
    [("steady_state.wbe.expect", "did you mean 'web'"), ("name.x", "leads nowhere"), ("steady_state.7", "no '7'")],
)
def test_a_path_that_leads_nowhere_is_refused(path, said):
    with pytest.raises(BadPath, match=said):
        resolve(EXPERIMENT, path, ())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"matrix": {"fault.delay": []}}, "no values"),
        ({"matrix": {"fault": [{"kind": "net.drop"}]}}, "a name"),
        ({"matrix": {"fault.delay": ["1s", "1s"]}}, "twice"),
        ({"templates": ["base"], "matrix": {"template": ["base"]}}, "both are given"),
        ({"seeds": [1, 1]}, "twice"),
        ({"repeats": 0}, "greater than or equal to 1"),
        ({"repeats": 1000, "seeds": list(range(11))}, "at most 10000"),
        ({"find": "fault.delay betwen 1s and 2s"}, "is no search"),
        ({"find": "fault.delay between 1s and 2s", "repeats": 3}, "has its own"),
        ({"find": "fault.delay between 1s and 2MiB where web breaks"}, "one is a duration, one a size"),
        ({"find": "fault.delay between 1s and 1000ms"}, "nothing to search"),
        ({"find": {"parameter": "fault.delay", "between": ["1s", "2s"], "within": "1%"}}, "'within' is"),
        ({"find": {"parameter": "fault.delay", "between": ["1s", "2s"], "metric": "p95"}}, "name the 'probe'"),
        ({"repaets": 2}, "did you mean 'repeats'"),
    ],
)
def test_what_is_wrong_is_said(fields, said):
    with pytest.raises(ValidationError, match=said):
        campaign(**fields)


def test_a_search_is_a_sentence():
    find = Find.model_validate("net.delay.delay between 2s and 10ms where checkout p95 breaks")
    assert (find.parameter, find.probe, find.metric) == ("net.delay.delay", "checkout", "p95")
    assert [end.value for end in find.ends] == [0.01, 2.0]
    assert find.sentence == "net.delay.delay between 10ms and 2s where checkout p95 breaks"
    assert Find.model_validate("fault.rate between 1mbit and 8kbit where breaks").probe is None


@pytest.mark.parametrize("text", ["300ms", "64MiB", "1mbit", "10%", "5/s", "1.5s", 3, 2.5])
def test_a_quantity_is_read_and_written_again(text):
    found = quantity(text)
    again = quantity(found.plain)
    assert again.value == pytest.approx(found.value) and again.family is found.family


@pytest.mark.parametrize(
    ("value", "text"), [(0.0632, "63.2ms"), (0.3, "300ms"), (90.0, "90s"), (120.0, "2m"), (0, "0s")]
)
def test_a_duration_is_written_as_people_do(value, text):
    assert Quantity(value, quantity("1s").family).text == text


@given(st.floats(0.001, 1e6), st.floats(0.001, 1e6), st.booleans())
def test_the_middle_is_between_and_readable(one, other, geometric):
    low, high = (quantity(f"{value:.6f}s") for value in sorted((one, other)))
    middle = between(low, high, geometric=geometric)
    if middle is None:
        assert high.value - low.value <= 1e-5
    else:
        assert low.value < middle.value < high.value
        assert quantity(middle.text).value == pytest.approx(middle.value)


def test_whole_numbers_have_whole_middles_and_neighbours_none():
    middle = between(quantity(4), quantity(9), geometric=False)
    assert middle is not None and middle.plain in (6, 7)
    assert between(quantity(4), quantity(5), geometric=False) is None
    with pytest.raises(ValueError, match="no quantity"):
        quantity("fast")
