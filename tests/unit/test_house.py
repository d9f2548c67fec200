"""The house keeps its shape: small files, one tree of errors, layers (import-linter runs beside this)."""

from pathlib import Path

from hypothesis import HealthCheck, settings

from stormcell.spec import errors

ROOT = Path(__file__).parents[2]


def modules():
    return [p for folder in ("src", "tests", "bench", "examples") for p in (ROOT / folder).rglob("*.py")]


def test_no_file_is_longer_than_a_reader_can_hold():
    long = {str(p.relative_to(ROOT)): n for p in modules() if (n := len(p.read_text().splitlines())) > 500}
    assert not long


def test_half_of_the_files_are_short():
    lengths = sorted(len(p.read_text().splitlines()) for p in (ROOT / "src").rglob("*.py"))
    assert lengths[len(lengths) // 2] <= 150


def test_every_error_hangs_on_one_tree_and_is_drawn_in_it():
    tree = errors.__doc__ or ""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    for kind in kinds:
        assert issubclass(kind, errors.StormcellError)
        assert kind.__name__ in tree


def test_an_error_says_what_where_rule_and_remedy():
    error = errors.SpecError("it is wrong", where="f.yaml:3", rule="be right", remedy="write it so", detail="a\nb")
    assert str(error) == "f.yaml:3: it is wrong\n  rule: be right\n  remedy: write it so\n  detail:\n    a\n    b"
    assert error.as_dict()["error"] == "SpecError"


def test_no_property_fails_for_being_slow():
    """Hypothesis calls an example of more than 200 ms a failure, and a loaded machine makes any example so slow."""
    assert settings().deadline is None
    assert HealthCheck.too_slow in settings().suppress_health_check
