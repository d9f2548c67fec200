"""From experiment to plan: the steps, their order, and who carries them out."""

import pytest

from stormcell import faults
from stormcell.engine.compile import compile_plan
from stormcell.engine.load import disturbance
from stormcell.spec.experiment import Experiment
from stormcell.spec.plan import Plan

BASE = {
    "name": "x",
    "open_ports": {"web": 8080},
    "setup": [{"run": "true"}],
    "load": [{"name": "early", "run": "sleep 1"}, {"name": "late", "run": ["sleep", "1"], "until": "end"}],
    "steady_state": [
        {"name": "inside", "command": {"run": "exit 0"}, "expect": {"exit_code": 0}},
        {"name": "outside", "http": {"url": "http://web/"}, "from": "host", "expect": {"success_rate": 1}},
    ],
    "fault": {"kind": "net.delay", "delay": "100ms"},
    "settle": "1s",
    "hold": "5s",
}


def plan_of(**changes):
    experiment = Experiment.model_validate({**BASE, **changes})
    found = experiment.disturbances.items()
    return compile_plan(experiment, [disturbance(name, n, item) for n, (name, item) in enumerate(found, 1)])


def test_the_steps_are_the_procedure():
    assert [(step.id, step.on) for step in plan_of().steps] == [
        ("needs.fault", "guest"),
        ("setup.1", "guest"),
        ("load.early", "guest"),
        ("load.late", "guest"),
        ("before.inside", "guest"),
        ("before.outside", "host"),
        ("inventory.before", "guest"),
        ("apply.fault", "guest"),
        ("settle", "guest"),
        ("under.inside", "guest"),
        ("under.outside", "host"),
        ("hold", "guest"),
        ("undo.fault", "guest"),
        ("unload.early", "guest"),
        ("recovery.inside", "guest"),
        ("recovery.outside", "host"),
        ("inventory.undone", "guest"),
        ("unload.late", "guest"),
    ]


def test_a_crash_is_the_hosts_and_nothing_is_measured_while_the_machine_is_down():
    plan = plan_of(fault={"kind": "machine.crash", "mode": "panic"})
    ids = [step.id for step in plan.steps]
    assert ids[ids.index("before.outside") + 1 :] == ["act.fault", "recovery.inside", "recovery.outside"]
    assert plan.steps[ids.index("act.fault")].on == "host"


def test_without_a_boot_after_it_a_crash_is_the_last_step():
    plan = plan_of(fault={"kind": "machine.crash", "mode": "power", "boot": False})
    assert plan.steps[-1].id == "act.fault"


def test_only_probes_before_the_fault_are_gates():
    gates = {step.id: step.gate for step in plan_of().steps if step.do == "probe"}
    assert gates == {
        "before.inside": True,
        "before.outside": True,
        "under.inside": False,
        "under.outside": False,
    }


def test_probes_are_planned_in_seconds_and_argument_lists():
    plan = plan_of(
        steady_state=[
            {"name": "a", "command": {"run": "echo 1", "timeout": "250ms"}, "expect": {"exit_code": 0}},
        ]
    )
    assert plan.probes["a"].spec["run"] == ["/bin/sh", "-c", "echo 1"]
    assert plan.probes["a"].spec["timeout"] == 0.25


@pytest.mark.parametrize("kind", [kind for kind, fault in faults.CATALOGUE.items() if not fault.unavailable])
def test_every_fault_compiles_and_its_plan_reads_back(kind):
    plan = plan_of(fault=faults.CATALOGUE[kind].example)
    assert plan.faults["fault"].kind == kind
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_the_same_experiment_compiles_to_the_same_plan():
    assert plan_of().model_dump_json() == plan_of().model_dump_json()
