"""What is asked of the time behind a moment of a recorded run: its own experiment, with what is given in its place."""

import pytest

from stormcell.engine.api import begun
from stormcell.engine.compile import compile_plan
from stormcell.engine.load import load_mapping
from stormcell.engine.sealed import bundle
from stormcell.engine.sealed.another import document_of, experiment_of, not_used
from stormcell.engine.sealed.run import recorded_run
from stormcell.spec import yamlfile
from stormcell.spec.errors import SpecError
from stormcell.spec.home import Home

RECORDED = {
    "name": "counter",
    "setup": [{"run": "true"}],
    "load": [{"name": "count", "run": "sleep 100"}],
    "steady_state": [{"name": "pings", "command": {"run": "ping -c 1 127.0.0.1"}, "expect": {"exit_code": 0}}],
    "fault": {"kind": "net.loss", "device": "lo", "loss": "100%"},
    "hold": "3s",
    "predict": "fails",
}
DELAY = "kind=net.delay,device=lo,delay=300ms"


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "state", tmp_path / "cache")


@pytest.fixture
def folder(tmp_path, home):
    """Of a recorded run, without its events."""
    loaded = load_mapping(RECORDED, home=home)
    plan = compile_plan(loaded.experiment, loaded.disturbances, seed=7)
    made = begun(tmp_path / "runs", loaded, plan)
    bundle.write_recipe(made, loaded.recipe)
    bundle.write(made, bundle.Sealed(seed=7, template="t", snapshot="s", inputs={}))
    made.close()
    return made.path


def given(text):
    return yamlfile.parse(text, "other.yaml")


def test_a_fault_in_a_line_is_a_mapping():
    found = document_of("kind=net.loss, device=lo, loss=30%, seed=4")
    assert found.data == {"fault": {"kind": "net.loss", "device": "lo", "loss": "30%", "seed": 4}}


@pytest.mark.parametrize("text", ["", "net.loss", "kind=net.loss,", "=x", "kind"])
def test_a_fault_in_a_line_that_is_none(text):
    with pytest.raises(SpecError) as raised:
        document_of(text)
    assert "kind=net.loss,device=lo,loss=30%" in raised.value.rule


def test_what_is_not_given_is_as_it_was_but_the_prediction(folder):
    loaded = experiment_of(folder, document_of(DELAY))
    experiment = loaded.experiment
    assert [item.fault.kind for item in loaded.disturbances] == ["net.delay"]
    assert (experiment.name, experiment.hold, experiment.predict) == ("counter", 3.0, None)
    assert [load.name for load in experiment.load] == ["count"], "its loads go on, and are stopped at the end"
    assert [probe.name for probe in experiment.steady_state] == ["pings"]


def test_what_is_settled_at_the_moment_is_not_taken_and_said(folder):
    text = """\
name: other
template: nowhere
setup: [{run: "false"}]
load: [{name: more, run: "true"}]
faults:
  one: {kind: net.delay, device: lo, delay: 1s}
  two: {kind: clock.jump, by: 1h}
hold: 9s
"""
    document = given(text)
    loaded = experiment_of(folder, document)
    assert not_used(document) == ("template", "setup", "load")
    assert [item.id for item in loaded.disturbances] == ["one", "two"]
    assert (loaded.experiment.name, loaded.experiment.hold) == ("other", 9.0)
    assert [load.name for load in loaded.experiment.load] == ["count"]


def test_a_fault_beside_one_that_is_kept_has_the_next_number_also_when_the_run_is_read_again(folder, home):
    def numbers(loaded):
        return [item.fault.number for item in loaded.disturbances]

    assert numbers(experiment_of(folder, document_of(DELAY), "undo")) == [1]
    assert numbers(experiment_of(folder, document_of(DELAY), "keep")) == [2]
    _, plan = recorded_run(folder, home)
    sealed = bundle.read(folder).model_copy(update={"drive": bundle.Drive(plan=plan, seed=7, hand_over="keep")})
    (folder / "sealed.json").write_text(sealed.model_dump_json())
    assert numbers(recorded_run(folder, home)[0]) == [2]
    assert numbers(experiment_of(folder, document_of(DELAY), "keep")) == [3]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("branches: {a: {fault: {kind: net.loss}}}", "other.yaml:1: branches"),
        ("hold: 1s\nfaul: {kind: net.loss}", "other.yaml:2: faul"),
        ("fault: {kind: net.los, device: lo}", "other.yaml:1.*net.loss"),
        ("fault: {kind: net.loss, device: eth0, loss: 1%}", "a sealed machine has no card"),
        ("fault: {kind: machine.pause, for: 1s}", "use process.stop"),
    ],
)
def test_what_cannot_be_is_one_error_of_the_file(folder, text, said):
    with pytest.raises(SpecError) as raised:
        experiment_of(folder, given(text))
    assert raised.match(f"(?s){said}")
