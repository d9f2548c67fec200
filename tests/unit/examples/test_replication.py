"""The experiments of examples/replication can be read, and differ in what they ask PostgreSQL for."""

from pathlib import Path

import pytest

from stormcell.engine.compile import compile_plan
from stormcell.engine.load import load_file

EXPERIMENTS = Path(__file__).parents[3] / "examples" / "replication" / "experiments"


@pytest.mark.parametrize("path", sorted(EXPERIMENTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_experiment_cuts_one_way_between_two_nodes(path):
    loaded = load_file(path)
    assert loaded.recipe.name == "replication"
    nodes = loaded.experiment.nodes
    assert list(nodes) == ["primary", "standby", "client"]
    assert nodes["primary"].own == nodes["standby"].own == ("/srv/pg",)
    asked = any("synchronous_standby_names" in word for word in nodes["primary"].services["postgresql"].run)
    assert asked == (path.stem == "cut-synchronous")
    fault = compile_plan(loaded.experiment, loaded.disturbances).faults["fault"]
    assert (fault.params["node"], fault.params["address"], fault.params["direction"]) == ("primary", "10.77.0.2", "out")
