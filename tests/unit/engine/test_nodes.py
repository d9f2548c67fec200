"""Experiments with nodes: their plan, and what is refused before anything starts."""

import json
from typing import Any

import pytest

from stormcell.engine.branches.plans import compile_all
from stormcell.engine.compile import compile_plan
from stormcell.engine.load import load_mapping
from stormcell.engine.schema import schema_of
from stormcell.faults import CATALOGUE
from stormcell.spec.errors import SpecError
from stormcell.spec.fault import GUEST

BASE: dict[str, Any] = {
    "name": "x",
    "template": "base",
    "nodes": {
        "a": {"services": {"web": {"run": "exec serve", "ready": "true", "ready_within": "20s"}}},
        "b": {"address": "10.77.0.9"},
        "c": {},
    },
    "setup": [{"run": "true", "node": "a"}],
    "load": [{"name": "users", "run": "sleep 9", "node": "b"}],
    "steady_state": [
        {"name": "web", "node": "b", "http": {"url": "http://a/"}, "expect": {"success_rate": 1}},
        {"name": "alive", "command": {"run": "true"}, "expect": {"exit_code": 0}},
    ],
    "abort": [{"probe": "web", "when": {"success_rate": "< 1%"}}],
}
DELAY = {"kind": "net.delay", "node": "a", "delay": "1s"}


def loaded(*faults, **changes):
    named = {f"f{number}": fault for number, fault in enumerate(faults, 1)}
    return load_mapping({**BASE, "faults": named, **changes})


def plan_of(*faults, **changes):
    it = loaded(*faults, **changes)
    return compile_plan(it.experiment, it.disturbances)


def test_the_golden_plan():
    plan = plan_of({"kind": "net.drop", "node": "a", "to": "b"})
    steps = {step.id: step for step in plan.steps}
    assert list(steps)[:5] == ["needs.f1", "nodes", "node.a", "setup.1", "load.users"]
    assert steps["nodes"].command.argv == (GUEST, "node", "make")
    assert [node["name"] for node in json.loads(steps["nodes"].command.stdin)] == ["a", "b", "c"]
    assert steps["node.a"].command.argv == (GUEST, "node", "start", "a", "65")
    assert (steps["setup.1"].command.node, steps["load.users"].command.node) == ("a", "b")
    assert plan.probes["web"].spec["node"] == "b"
    assert "node" not in plan.probes["alive"].spec
    assert plan.aborts[0].spec["node"] == "b"
    fault = plan.faults["f1"]
    assert fault.params | {"device": "eth0"} == fault.params
    assert (fault.params["node"], fault.params["address"], fault.params["direction"]) == ("a", "10.77.0.9", "out")
    commands = [*fault.apply, *fault.undo, *fault.read]
    assert len(commands) >= 5
    assert {command.node for command in commands} == {"a"}
    assert "ip daddr 10.77.0.9" in fault.apply[1].stdin


def test_a_fault_without_a_node_is_the_machines():
    assert {command.node for command in plan_of({"kind": "net.drop"}).faults["f1"].apply} == {None}


def test_every_level_of_a_ramp_is_in_the_node():
    ramp = {"schedule": {"ramp": {"parameter": "delay", "through": ["10ms", "1s"], "each": "1s"}}}
    levels = plan_of({**DELAY, **ramp}).faults["f1"].levels
    commands = [command for level in levels for command in (*level.apply, *level.undo, *level.read, *level.change)]
    assert levels[1].change
    assert {command.node for command in commands} == {"a"}


@pytest.mark.parametrize(
    ("written", "node", "address", "direction"),
    [
        ({"between": ["a", "c"]}, "a", "10.77.0.3", "both"),
        ({"node": "c", "to": ["a", "b"]}, "c", ["10.77.0.1", "10.77.0.9"], "out"),
        ({"node": "c", "to": "a", "direction": "in"}, "c", "10.77.0.1", "in"),
    ],
)
@pytest.mark.parametrize("kind", ["net.drop", "net.reject", "net.loss"])
def test_pairs_become_addresses(kind, written, node, address, direction):
    amount = {"loss": "10%"} if kind == "net.loss" else {}
    params = plan_of({"kind": kind, **amount, **written}).faults["f1"].params
    assert (params["node"], params["address"], params["direction"]) == (node, address, direction)


@pytest.mark.parametrize(
    ("written", "folder"),
    [
        ({"node": "a"}, "cgroup /sys/fs/cgroup/nodes/a"),
        ({"node": "a", "service": "web"}, "service web"),
        ({"node": "a", "name": "python3"}, "name python3"),
    ],
)
def test_resources_of_a_node(written, folder):
    fault = plan_of({"kind": "memory.limit", "max": "64MiB", **written}).faults["f1"]
    assert folder in " ".join(fault.apply[0].argv)
    assert fault.apply[0].node == "a"


def test_the_same_fault_in_two_nodes_is_no_conflict():
    plan_of(DELAY, {**DELAY, "node": "b"}, {**DELAY, "node": None})
    limit = {"kind": "memory.limit", "max": "64MiB", "service": "web", "node": "a"}
    plan_of(limit, {"kind": "memory.limit", "max": "64MiB", "node": "b"})
    with pytest.raises(SpecError, match="cannot be together"):
        plan_of(limit, limit)
    with pytest.raises(SpecError, match="cannot be together"):
        plan_of({"kind": "memory.limit", "max": "64MiB", "node": "b"},
                {"kind": "memory.limit", "max": "64MiB", "cgroup": "/sys/fs/cgroup/nodes/b"})  # fmt: skip


def test_a_moment_in_a_node():
    branches = {"branches": {"cut": {"fault": {"kind": "net.drop", "node": "a"}}}}
    base = {key: value for key, value in BASE.items() if key != "abort"}

    def moment_of(**moment):
        plans = compile_all(load_mapping({**base, **branches, "moment": moment}))
        (step,) = (step for step in plans[0].steps if step.do == "moment")
        assert plans[1]["cut"].faults["fault"].apply[0].node == "a"
        return step

    assert moment_of(command="true", node="b").command.node == "b"
    assert moment_of(log={"service": "web", "node": "a", "match": "up"}).file == "/run/stormcell/log/web@a.log"
    assert moment_of(probe="web").spec["node"] == "b"
    for wrong in ({"command": "true", "node": "d"}, {"log": {"service": "web", "node": "d", "match": "up"}}):
        with pytest.raises(SpecError, match="there is no node 'd'"):
            moment_of(**wrong)
    with pytest.raises(SpecError, match="the node 'b' has no service 'web'"):
        moment_of(log={"service": "web", "node": "b", "match": "up"})


BAD = [
    ({"kind": "net.drop", "node": "d"}, "faults.f1.node: there is no node 'd'"),
    ({"kind": "net.drop", "node": "a", "to": "d"}, "faults.f1.to: there is no node 'd'"),
    ({"kind": "net.drop", "node": "a", "to": "a"}, "'a' is the node itself"),
    ({"kind": "net.drop", "between": ["a", "a"]}, "'a' is the node itself"),
    ({"kind": "net.drop", "between": ["a"]}, "it takes two nodes"),
    ({"kind": "net.drop", "between": "a"}, "it takes two nodes"),
    ({"kind": "net.drop", "between": ["a", "b"], "node": "c"}, "it says all that 'node' says"),
    ({"kind": "net.drop", "between": ["a", "b"], "direction": "out"}, "it says all that 'direction' says"),
    ({"kind": "net.drop", "to": "a"}, "it needs a 'node'"),
    ({"kind": "net.drop", "node": "a", "to": []}, "it takes a node"),
    ({"kind": "net.drop", "node": "a", "to": "b", "address": "10.0.0.1"}, "write one of the two"),
    ({"kind": "clock.jump", "by": "1h", "node": "a"}, "is about the whole machine and knows no node"),
    ({"kind": "machine.crash", "node": "a"}, "is about the whole machine and knows no node"),
    ({"kind": "net.down", "node": "a", "to": "b"}, "does not choose by the peer's address"),
    ({"kind": "net.cut", "between": ["a", "b"]}, "knows no direction"),
    ({"kind": "process.kill", "node": "a", "service": "wob"}, "the node 'a' has no service 'wob'; did you mean 'web'?"),
    ({"kind": "process.kill", "node": "b", "service": "web"}, "the node 'b' has no service 'web'; it has no services"),
    ({"kind": "process.kill", "service": "web"}, "the template 'base' has no service 'web'"),
    ({"kind": "memory.limit", "max": "1GiB", "node": "a", "cgroup": "/sys/fs/cgroup/nodes/a"}, "write one of 'node'"),
]


@pytest.mark.parametrize(("fault", "said"), BAD)
def test_what_cannot_be_meant_is_refused(fault, said):
    with pytest.raises(SpecError) as refusal:
        loaded(fault)
    assert said in str(refusal.value)


def test_a_refusal_names_the_kinds_that_know_nodes():
    with pytest.raises(SpecError) as refusal:
        loaded({"kind": "clock.jump", "by": "1h", "node": "a"})
    assert "net.*" in str(refusal.value)
    assert "memory.limit" in str(refusal.value)


def test_the_schema_knows_pairs_where_they_can_be():
    known = schema_of("experiment")["$defs"]
    pairs = {kind: sorted({"to", "between"} & known[f"fault.{kind}"]["properties"].keys()) for kind in CATALOGUE}
    assert (pairs["net.drop"], pairs["net.cut"], pairs["clock.jump"]) == (["between", "to"], ["to"], [])


def test_without_nodes_there_is_none_to_name():
    with pytest.raises(SpecError, match="this experiment has no 'nodes'"):
        load_mapping(
            {"name": "x", "steady_state": [BASE["steady_state"][1]], "fault": {"kind": "net.drop", "node": "a"}}
        )
