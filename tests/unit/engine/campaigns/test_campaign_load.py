"""From a campaign's file to runs that can be compiled; errors name the line that is to be mended."""

from pathlib import Path

import pytest

from stormcell.engine.campaigns.load import at_value, is_campaign, load_campaign, repeated
from stormcell.spec import yamlfile
from stormcell.spec.errors import SpecError
from stormcell.spec.home import Home

ROOT = Path(__file__).parents[4]
QUICK = """\
name: quick
template: base
steady_state:
  - name: alive
    command: {run: "ping -c 1 -W 2 127.0.0.1"}
    expect: {exit_code: 0}
fault: {kind: net.delay, device: lo, delay: 20ms}
"""
CAMPAIGN = "campaign: sweep\nexperiment: quick.yaml\n"


def load(folder, text, campaign=CAMPAIGN, experiment=QUICK):
    (folder / "quick.yaml").write_text(experiment)
    (folder / "x.yaml").write_text(campaign + text + "\n")
    document = yamlfile.load(folder / "x.yaml")
    assert is_campaign(document)
    return load_campaign(document, folder, Home(folder / "state", folder / "cache"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("matrix: {fault.delay: [10ms, 10]}", ["x.yaml:3", "has no unit"]),
        ("matrix: {fault.dleay: [10ms]}", ["x.yaml:3", "did you mean 'delay'?"]),
        ("matrix: {steady_state.alvie.expect: {a: {exit_code: 0}}}", ["x.yaml:3", "did you mean 'alive'?"]),
        ("matrix: {fault: [{kind: net.drop}]}", ["x.yaml:3", "a name"]),
        ("repeats: 0", ["x.yaml:3"]),
        ("find: fault.delay between 10ms and 2MiB", ["x.yaml:3", "one is a duration, one a size"]),
        ("find: net.delay.delay between 10ms and 2s where alive p95 breaks", ["x.yaml:3", "has no 'p95'"]),
        ("find: net.delay.delay between 10ms and 2s where web breaks", ["x.yaml:3", "no probe 'web'"]),
        ("find: net.delay.delay between 0s and 2s", ["x.yaml:3", "at 0s"]),
        ("reapeats: 3", ["x.yaml:3", "did you mean 'repeats'?"]),
    ],
)
def test_a_wrong_campaign_is_refused_with_its_line(tmp_path, text, said):
    with pytest.raises(SpecError) as caught:
        load(tmp_path, text)
    for part in said:
        assert part in str(caught.value)


def test_an_error_in_the_experiment_is_the_experiments(tmp_path):
    with pytest.raises(SpecError, match=r"quick.yaml:7.*did you mean 'net.delay'"):
        load(tmp_path, "matrix: {fault.delay: [1s]}", experiment=QUICK.replace("net.delay", "net.dealy"))


def test_an_experiment_that_is_not_there_is_named(tmp_path):
    with pytest.raises(SpecError, match=r"x.yaml:2: the experiment 'quikc.yaml' is not there"):
        load(tmp_path, "", campaign=CAMPAIGN.replace("quick.yaml", "quikc.yaml"))


def test_an_experiment_may_stand_in_the_campaign_and_keeps_its_lines(tmp_path):
    indented = "campaign: sweep\nexperiment:\n" + "".join(f"  {line}\n" for line in QUICK.splitlines())
    found = load(tmp_path, "matrix: {fault.delay: [1s, 2s]}", campaign=indented)
    assert [item.loaded.experiment.name for item in found.cells] == ["quick.delay-1s", "quick.delay-2s"]
    with pytest.raises(SpecError, match=r"x.yaml:9: .*no unit"):
        load(tmp_path, "", campaign=indented.replace("20ms", "20"))


def test_the_same_experiment_twice_is_refused(tmp_path):
    with pytest.raises(SpecError, match="are the same experiment"):
        load(tmp_path, "matrix: {fault: {a: {kind: net.drop, remote_port: 80}, b: {kind: net.drop, remote_port: 80}}}")


def test_plain_experiments_are_a_campaign_with_one_cell_each(tmp_path):
    documents = [
        (yamlfile.parse(QUICK.replace("quick", name).replace("20ms", delay), name), tmp_path)
        for name, delay in (("a", "1ms"), ("b", "2ms"))
    ]
    found = repeated(documents, "both", 3)
    assert [run.cell.name for run in found.executions(0)] == ["a", "b"] * 3
    assert [run.seed for run in found.executions(5)] == [5, 5, 6, 6, 7, 7]


def test_a_searchs_parameter_is_found_by_its_faults_kind(tmp_path):
    found = load(tmp_path, "find: net.delay.jitter between 1ms and 9ms where alive breaks")
    assert found.field == ("fault", "jitter")
    assert found.executions(0) == []
    cell = at_value(found, "3ms", "3ms")
    assert cell.loaded.experiment.name == "quick.jitter-3ms"
    assert cell.loaded.experiment.fault == {"kind": "net.delay", "device": "lo", "delay": "20ms", "jitter": "3ms"}


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*/campaigns/*.yaml")), ids=lambda file: file.stem)
def test_the_examples_are_valid(file, tmp_path):
    assert load_campaign(yamlfile.load(file), file.parent, Home(tmp_path, tmp_path)).campaign.campaign == file.stem
