"""The recipe and the experiments, read by the same code as a run reads them."""

import re

import pytest

from stormcell.engine.load import load_file
from stormcell.spec import yamlfile
from stormcell.spec.recipe import Recipe
from tests.unit.examples.shop import EXAMPLE

EXPERIMENTS = sorted((EXAMPLE / "experiments").glob("*.yaml"))


def recipe() -> Recipe:
    return yamlfile.validated(yamlfile.load(EXAMPLE / "template.yaml"), Recipe.model_validate, "recipe")


def test_every_file_of_the_service_is_in_the_recipe():
    sources = {item.source for item in recipe().files}
    assert {f"service/{path.name}" for path in (EXAMPLE / "service").glob("*.py")} <= sources
    assert {f"etc/{path.name}" for path in (EXAMPLE / "etc").iterdir()} <= sources


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_experiment_is_valid_and_says_what_it_expects(path):
    loaded = load_file(path)
    assert loaded.experiment.name == path.stem
    assert loaded.experiment.question.endswith("?")
    fates = [loaded.experiment.branch(branch.name) for branch in loaded.branches] or [loaded.experiment]
    assert all(fate.prediction is not None for fate in fates)


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_experiment_looks_at_the_variant_that_it_is_named_after(path):
    other = {"first": r"\b8081\b|orders_fixed\b", "fixed": r"\b8080\b|--database orders\b(?!_)"}[
        path.stem.rpartition("-")[2]
    ]
    assert not re.search(other, path.read_text())


def test_two_experiments_that_share_a_name_differ_in_the_variant_alone():
    names = {path.stem for path in EXPERIMENTS}
    pairs = [name.removesuffix("-first") for name in names if name.endswith("-first")]
    pairs = [base for base in pairs if f"{base}-fixed" in names]
    assert len(pairs) >= 6
    for base in pairs:
        first, fixed = (load_file(EXAMPLE / "experiments" / f"{base}-{variant}.yaml") for variant in ("first", "fixed"))
        assert first.disturbances == fixed.disturbances
        assert [(p.name, p.expect, p.under_fault) for p in first.experiment.steady_state] == [
            (p.name, p.expect, p.under_fault) for p in fixed.experiment.steady_state
        ]
