"""From an experiment with branches to its plans; and what is wrong with one, by file and line."""

from pathlib import Path
from typing import Any

import pytest

from stormcell.engine.branches.plans import compile_all
from stormcell.engine.branches.run import check_branches
from stormcell.engine.compile import compile_plan
from stormcell.engine.load import load_file, load_mapping
from stormcell.engine.schema import schema_of
from stormcell.spec.errors import SpecError
from stormcell.spec.plan import ApplyStep, ForkStep, MomentStep, UndoStep, WaitStep

WEB: dict[str, Any] = {
    "name": "web",
    "http": {"url": "http://127.0.0.1:8000/", "rate": "5/s", "for": "4s"},
    "expect": {"success_rate": "100%"},
}
DELAY = {"kind": "net.delay", "device": "lo", "delay": "50ms"}
FILL = {"kind": "disk.fill", "path": "/srv"}


def experiment(**changes: Any) -> dict[str, Any]:
    return {
        "name": "parted",
        "setup": [{"run": "true"}],
        "load": [{"name": "l", "run": "sleep 9"}],
        "steady_state": [WEB],
        "moment": {"after": "2s", "settle": "1s"},
        "branches": {"late": {"fault": DELAY, "predict": {"fails": "web"}}, "full": FILL},
        **changes,
    }


def ids(plan: Any) -> list[str]:
    return [step.id for step in plan.steps]


def test_setup_and_loads_are_the_drive_and_all_else_is_each_branch():
    drive, plans = compile_all(load_mapping(experiment()), digest="d", seed=3)
    assert ids(drive) == ["setup.1", "load.l", "moment", "fork"]
    assert (drive.role, drive.branches, drive.faults) == ("drive", ("control", "late", "full"), {})
    whole = compile_plan(
        load_mapping({**experiment(), "branches": None, "moment": None, "fault": DELAY}).experiment, ()
    )
    assert list(plans) == ["control", "late", "full"]
    for name in ("late", "full"):
        steps = ids(plans[name])
        assert steps[:3] == ["needs.fault", "settle.fork", "before.web"]
        acts = {"needs.fault", "apply.fault", "undo.fault", "settle.fork"}
        assert [step for step in steps if step not in acts] == ids(whole)[2:]
        assert plans[name].experiment == f"parted/{name}"
    assert plans["late"].prediction
    assert plans["late"].prediction.probe == "web"
    assert plans["full"].prediction is None
    assert {plan.seed for plan in plans.values()} == {3}


def test_the_control_measures_what_the_branches_do_and_does_nothing():
    _, plans = compile_all(load_mapping(experiment(hold="3s", abort=[{"probe": "web", "when": {"sent": "< 0"}}])))
    acts = {"apply.fault": "act", "undo.fault": "undo"}
    branch = [acts.get(step, step) for step in ids(plans["late"]) if step != "needs.fault"]
    assert ids(plans["control"]) == branch
    assert not any(isinstance(step, ApplyStep | UndoStep) for step in plans["control"].steps)
    assert plans["control"].faults == {}


def test_the_control_waits_as_long_as_the_longest_schedule():
    late = {**DELAY, "schedule": {"pulse": {"on": "1s", "off": "1s", "times": 3}}}
    _, plans = compile_all(load_mapping(experiment(branches={"late": late, "full": FILL})))
    waits = [step for step in plans["control"].steps if isinstance(step, WaitStep) and step.since_act]
    assert [wait.seconds >= 5 for wait in waits] == [True]


def test_one_branch_alone_goes_with_the_control():
    drive, plans = compile_all(load_mapping(experiment()), only=["full"])
    assert list(plans) == ["control", "full"]
    assert drive.branches == ("control", "full")


@pytest.mark.parametrize(
    ("moment", "field"),
    [
        ({"command": "test -e /x", "user": "nobody"}, "command"),
        ({"probe": "web", "holds": False}, "probe"),
        ({"log": {"file": "/var/log/x", "match": "ready"}}, "file"),
        ({"log": {"service": "web", "match": "ready"}}, "file"),
        ({"after": "2s"}, "after_s"),
    ],
)
def test_every_form_of_moment_compiles(tmp_path: Path, moment: dict[str, Any], field: str):
    recipe = tmp_path / "r.yaml"
    recipe.write_text("name: r\nservices: [{name: web, command: [sleep, '9']}]\n")
    drive, _ = compile_all(load_mapping(experiment(moment=moment, template=str(recipe)), tmp_path))
    (step,) = [step for step in drive.steps if isinstance(step, MomentStep)]
    assert getattr(step, field) is not None
    if moment.get("log", {}).get("service"):
        assert step.file == "/run/stormcell/log/web.log"
    assert isinstance(drive.steps[-1], ForkStep)


def test_a_moment_seen_from_the_host_is_the_hosts_step():
    web = {**WEB, "http": {**WEB["http"], "url": "http://web/"}, "from": "host"}
    asked = experiment(moment={"probe": "web"}, steady_state=[web], open_ports={"web": 8000})
    drive, _ = compile_all(load_mapping(asked))
    assert [step.on for step in drive.steps if isinstance(step, MomentStep)] == ["host"]


FILE = """\
name: parted
steady_state:
  - {name: a, command: {run: "true"}, expect: {exit_code: 0}}
"""


@pytest.mark.parametrize(
    ("more", "line", "text"),
    [
        ("moment: {after: 1s}\nbranches: {}\n", 1, "'branches' is empty"),
        ("moment: {after: 1s}\nbranches:\n  control: {kind: clock.jump, by: 1h}\n", 1, "'control' is the branch that"),
        ("branches:\n  a: {kind: clock.jump, by: 1h}\n", 1, "need a 'moment'"),
        ("moment: {after: 1s}\nfault: {kind: clock.jump, by: 1h}\n", 4, "this experiment has none"),
        ("moment: {}\nbranches:\n  a: {kind: clock.jump, by: 1h}\n", 4, "none is given"),
        ("moment: {after: 1s, probe: a}\nbranches:\n  a: {kind: clock.jump, by: 1h}\n", 4, "probe and after are given"),
        ("moment: {probe: b}\nbranches:\n  a: {kind: clock.jump, by: 1h}\n", 4, "did you mean|known: a"),
        ("moment: {after: 1s}\nbranches:\n  a:\n    kind: clock.jump\n    buy: 1h\n", 8, "unknown field 'buy'"),
        ("moment: {after: 1s}\nbranches:\n  a:\n    fault:\n      kind: clock.jump\n", 7, "'by' is missing"),
        ("moment: {after: 1s}\nbranches:\n  a: {kind: clock.jmp}\n", 6, "clock.jump"),
        ("moment: {after: 1s}\nbranches:\n  a: {fault: {by: 1h}}\n", 6, "'kind' is missing"),
        ("moment: {after: 1s}\nbranches:\n  a: {predict: survives}\n", 6, "one of 'fault' and 'faults'"),
        ("moment: {after: 1s}\npredict: survives\nbranches:\n  a: {kind: clock.jump, by: 1h}\n", 5, "its own"),
        ("moment: {after: 1s}\nbranches:\n  a/b: {kind: clock.jump, by: 1h}\n", 6, "no name of a branch"),
        ("moment: {log: {service: x, match: y}}\nbranches:\n  a: {kind: clock.jump, by: 1h}\n", 4, "no service 'x'"),
        ("moment: {log: {file: /x, match: '('}}\nbranches:\n  a: {kind: clock.jump, by: 1h}\n", 4, "no regular expr"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, more: str, line: int, text: str):
    file = tmp_path / "x.yaml"
    file.write_text(FILE + more)
    with pytest.raises(SpecError, match=text) as raised:
        load_file(file)
    assert raised.value.where == f"{file}:{line}"


def test_a_branch_that_is_not_there_is_refused_before_anything_starts():
    with pytest.raises(SpecError, match="did you mean 'late'"):
        check_branches(load_mapping(experiment()), ["lat"])
    with pytest.raises(SpecError, match="the control always runs"):
        check_branches(load_mapping(experiment()), ["control"])
    plain = {**experiment(), "branches": None, "moment": None, "fault": DELAY}
    with pytest.raises(SpecError, match="has no branches"):
        check_branches(load_mapping(plain), ["late"])


def test_the_schema_knows_the_faults_of_a_branch():
    branch = schema_of("experiment")["$defs"]["Branch"]
    assert any("fault.net.delay" in str(form) for form in branch["anyOf"])
