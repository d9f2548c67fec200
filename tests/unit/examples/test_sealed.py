"""The recipes and experiments of examples/sealed and examples/sentinel, read as a run reads them."""

import importlib.util
import io
from pathlib import Path

import pytest

from stormcell.engine.load import load_file
from stormcell.spec import yamlfile
from stormcell.spec.recipe import Recipe

EXAMPLES = Path(__file__).parents[3] / "examples"
EXPERIMENTS = sorted(
    path for name in ("sealed", "sentinel") for path in (EXAMPLES / name / "experiments").glob("*.yaml")
)


def recipe(path: Path) -> Recipe:
    return yamlfile.validated(yamlfile.load(path), Recipe.model_validate, "recipe")


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: f"{path.parts[-3]}-{path.stem}")
def test_experiment_is_valid_and_says_what_it_expects(path):
    experiment = load_file(path).experiment
    assert experiment.name.removeprefix("sentinel-") == path.stem
    assert experiment.question.endswith("?")
    assert experiment.prediction is not None


@pytest.mark.parametrize("name", ["sealed/template.yaml", "sealed/postgres.yaml", "sentinel/template.yaml"])
def test_every_file_of_a_recipe_is_there(name):
    path = EXAMPLES / name
    assert all((path.parent / (item.source or "")).is_file() for item in recipe(path).files)


def test_every_program_under_load_is_in_the_recipe():
    sources = {item.source for item in recipe(EXAMPLES / "sealed" / "template.yaml").files}
    assert {f"load/{path.name}" for path in (EXAMPLES / "sealed" / "load").glob("*.py")} == sources


def test_the_four_answers_to_the_lost_writes_meet_the_same_fault():
    faults = [load_file(path).disturbances for path in EXPERIMENTS if path.parts[-3] == "sentinel"]
    assert len(faults) == 4 and all(one == faults[0] for one in faults)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"+PONG\r\n", "PONG"),
        (b":12\r\n", 12),
        (b"$4\r\na\r\nb\r\n", "a\r\nb"),
        (b"$-1\r\n", None),
        (b"*3\r\n:1\r\n$1\r\nx\r\n*1\r\n+y\r\n", [1, "x", ["y"]]),
    ],
)
def test_the_audit_reads_what_redis_answers(raw, value):
    assert audit().answer(io.BytesIO(raw)) == value


@pytest.mark.parametrize("raw", [b"-NOREPLICAS Not enough good replicas to write.\r\n", b"", b"$4", b"*2\r\n:1\r\n"])
def test_no_answer_is_not_taken_for_one(raw):
    with pytest.raises(LookupError):
        audit().answer(io.BytesIO(raw))


def audit():
    spec = importlib.util.spec_from_file_location("audit", EXAMPLES / "sentinel" / "audit.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
