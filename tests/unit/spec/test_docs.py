"""What the docs show can be read, and names every field and metric."""

import re
from pathlib import Path

from stormcell.cli.explore import explore
from stormcell.engine.explore.run import space_of
from stormcell.engine.load import disturbance, load_mapping
from stormcell.spec.branching import ForkMoment
from stormcell.spec.campaign import Campaign, Find
from stormcell.spec.experiment import Experiment
from stormcell.spec.exploration import Exploration
from stormcell.spec.nodes import Node, NodeService
from stormcell.spec.probe import METRICS
from stormcell.spec.recipe import Recipe
from stormcell.spec.schedule import Schedule
from stormcell.spec.yamlfile import parse, validated

PAGE = (Path(__file__).parents[3] / "docs" / "experiments.md").read_text()
EXPERIMENT, RECIPE, SEVERAL = re.findall(r"```yaml\n(.*?)```", PAGE, re.S)


def test_the_examples_are_valid():
    assert validated(parse(EXPERIMENT, "page"), Experiment.model_validate, "experiment").name == "slow-database"
    data = {key: value for key, value in parse(EXPERIMENT, "page").data.items() if key != "fault"}
    several = Experiment.model_validate({**data, **parse(SEVERAL, "page").data})
    found = [disturbance(name, 1, item) for name, item in several.disturbances.items()]
    assert [len(item.fault.plan().apply) > 0 for item in found] == [True, True]
    for form in re.findall(r"^\| `(\{.*?\})`[ ,]", PAGE, re.M):
        Schedule.model_validate(parse(f"s: {form}", "page").data["s"])
    assert validated(parse(RECIPE, "page"), Recipe.model_validate, "recipe").name == "orders"


def test_every_field_of_an_experiment_is_shown():
    data = parse(EXPERIMENT, "page").data
    assert set(data) == set(Experiment.model_fields) - {
        *("stormcell", "cold_boot_within", "faults"),
        *("branches", "moment"),  # docs/branches.md
        "nodes",  # docs/nodes.md
        "explore",  # docs/explore.md
    }


NODES = (Path(__file__).parents[3] / "docs" / "nodes.md").read_text()


def test_the_nodes_are_valid_and_every_field_of_one_is_named():
    (example,) = re.findall(r"```yaml\n(.*?)```", NODES, re.S)
    assert set(load_mapping(parse(example, "page").data).experiment.nodes) == {"left", "right"}
    for field in {*Node.model_fields, *NodeService.model_fields}:
        assert f"`{field}`" in NODES


PARTED = (Path(__file__).parents[3] / "docs" / "branches.md").read_text()


def test_the_branches_are_valid_and_every_form_of_a_moment_is_shown():
    (example,) = re.findall(r"```yaml\n(.*?)```", PARTED, re.S)
    assert set(load_mapping(parse(example, "page").data).experiment.branches or ()) == {"packet-loss", "full-disk"}
    forms = [parse(f"s: {form}", "page").data["s"] for form in re.findall(r"^\| `(\{.*?\})` ", PARTED, re.M)]
    shown = {field for form in forms for field in ForkMoment.model_validate(form).model_fields_set}
    shown |= {*parse(example, "page").data["moment"], *re.findall(r"with `(node): a`, run", PARTED)}
    assert shown == set(ForkMoment.model_fields)


def test_every_metric_is_named():
    for metrics in METRICS.values():
        for metric in metrics:
            assert f"`{metric}`" in PAGE


CAMPAIGNS = (Path(__file__).parents[3] / "docs" / "campaigns.md").read_text()
MATRIX, SEARCH, CHOSEN = re.findall(r"```yaml\n(.*?)```", CAMPAIGNS, re.S)


def test_the_campaigns_are_valid_and_show_every_field():
    assert validated(parse(MATRIX, "page"), Campaign.model_validate, "campaign").campaign == "late-database"
    search = parse(SEARCH, "page").data
    assert Campaign.model_validate(search).find is not None
    chosen = parse(CHOSEN, "page").data
    assert Campaign.model_validate({**search, **chosen}).find is not None
    assert set(parse(MATRIX, "page").data) | {"find"} == set(Campaign.model_fields) - {"stormcell"}
    assert set(chosen["find"]) == set(Find.model_fields)


EXPLORE = (Path(__file__).parents[3] / "docs" / "explore.md").read_text()


def test_the_exploration_is_valid_and_every_field_of_one_is_shown():
    (example,) = re.findall(r"```yaml\n(.*?)```", EXPLORE, re.S)
    loaded = load_mapping(parse(example, "page").data)
    assert set(loaded.experiment.model_dump()["explore"]) == set(parse(example, "page").data["explore"])
    assert space_of(loaded).window == (0, 10)
    assert all(f"`{field}`" in EXPLORE for field in Exploration.model_fields)


def test_every_option_of_explore_is_named():
    options = [name for option in explore.params for name in option.opts if name.startswith("--")]
    assert all(f"`{name}" in EXPLORE for name in options if name not in ("--json", "--help"))
