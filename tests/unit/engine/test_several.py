"""Several faults in one experiment: what is refused before anything starts, by file and line."""

from pathlib import Path

import pytest

from stormcell.engine.compile import compile_plan
from stormcell.engine.load import load_file
from stormcell.spec.errors import SpecError

HEAD = """name: x
template: base
steady_state:
  - {name: alive, command: {run: "true"}, expect: {exit_code: 0}}
"""
JUMP = "fault:\n  kind: clock.jump\n  by: 1h\n"
LATE = "{kind: net.delay, device: lo, remote_port: 5432, delay: 100ms}"


def load(folder: Path, tail: str):
    path = folder / "x.yaml"
    path.write_text(HEAD + tail)
    return load_file(path)


def test_each_knows_its_name_and_number(tmp_path):
    loaded = load(tmp_path, f"faults:\n  late: {LATE}\n  old: {{kind: clock.jump, by: -1h}}\n")
    assert [(item.id, item.fault.number) for item in loaded.disturbances] == [("late", 1), ("old", 2)]
    plan = compile_plan(loaded.experiment, loaded.disturbances)
    ids = [step.id for step in plan.steps]
    assert ids[ids.index("undo.old") + 1] == "inventory.old"
    assert ids.index("apply.late") < ids.index("apply.old") < ids.index("undo.old") < ids.index("undo.late")


def test_the_plan_of_a_ramp_shows_every_value(tmp_path):
    ramp = "{parameter: percent, through: [80%, 40%, 20%], each: 1s}"
    fault_text = "fault:\n  kind: cpu.limit\n  cgroup: /sys/fs/cgroup/services/v\n  percent: 80%\n"
    loaded = load(tmp_path, f"{fault_text}  schedule: {{ramp: {ramp}}}\n")
    fault = compile_plan(loaded.experiment, loaded.disturbances).faults["fault"]
    assert [level.params["percent"] for level in fault.levels] == ["80%", "40%", "20%"]
    assert fault.moments[0].do == "apply"
    assert fault.over_s == 3


@pytest.mark.parametrize(
    ("tail", "line", "said"),
    [
        ("predict: survives\n", 1, "one of 'fault' and 'faults'"),
        (f"fault: {LATE}\nfaults:\n  a: {LATE}\n", 1, "one of 'fault' and 'faults'"),
        ("faults: {}\n", 5, "is empty"),
        (f"faults:\n  'a b': {LATE}\n", 6, "no name of a fault"),
        ("faults:\n  a: {delay: 1s}\n", 6, "faults.a: the field 'kind' is missing"),
        (f"faults:\n  a: {LATE}\n  b: {{kind: net.dely}}\n", 7, "did you mean 'net.delay'"),
        (f"faults:\n  a: {LATE}\n  b: {{kind: machine.crash, mode: power}}\n", 7, "takes the guest"),
        (f"faults:\n  a: {LATE}\n  b: {LATE}\n", 7, "cannot be together"),
        ("fault:\n  kind: clock.jump\n  by: 1h\n  schedule: {lasts: 5}\n", 8, "unit"),
        ("fault:\n  kind: clock.jump\n  by: 1h\n  schedule: {puls: 5}\n", 8, "did you mean 'pulse'"),
        ("fault:\n  kind: machine.crash\n  mode: power\n  schedule: {at: 5s}\n", 8, "has no schedule"),
        ("fault:\n  kind: clock.jump\n  by: 1h\n  schedule: {ramp: {parameter: byy, through: [1h, 2h], each: 1s}}\n", 8,
         "did you mean 'by'"),
        (f"{JUMP}  schedule: {{ramp: {{parameter: by, through: [1h, soon], each: 1s}}}}\n", 8, "by = soon"),
        (f"fault: {LATE}\nabort: [{{probe: alve, when: {{exit_code: 1}}}}]\n", 6, "did you mean 'alive'"),
        (f"fault: {LATE}\nabort: [{{probe: alive, when: {{p95: '> 1s'}}}}]\n", 6, "no metric 'p95'"),
        (f"fault: {LATE}\nabort: [{{probe: alive, when: '> 1'}}]\n", 6, "mapping of metrics"),
        (f"fault: {LATE}\nabort: [{{file: /x, when: {{number: 1}}}}]\n", 6, "one bound"),
        (f"fault: {LATE}\nabort: [{{file: relative, when: '> 1'}}]\n", 6, "no absolute path"),
        (f"fault: {LATE}\nabort: [{{when: '> 1'}}]\n", 6, "one of 'probe' and 'file'"),
        (f"fault: {LATE}\nttl: 5\n", 6, "unit"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, tail, line, said):
    with pytest.raises(SpecError) as caught:
        load(tmp_path, tail)
    assert said in str(caught.value)
    assert f"x.yaml:{line}" in str(caught.value)
