import json

import pytest
from pydantic import ValidationError

from stormcell import faults
from stormcell.engine.schema import schema_of
from stormcell.faults import CATALOGUE, docs
from stormcell.guest.commands import COMMANDS
from stormcell.spec.fault import GUEST, MACHINE, Command
from tests.unit.faults import golden_plans
from tests.unit.faults.fault_cases import GOLDEN, SPECS, recorded

KINDS = list(CATALOGUE)
AVAILABLE = [kind for kind, fault in CATALOGUE.items() if not fault.unavailable]


def commands(spec) -> list[Command]:
    act = faults.parse(spec).plan()
    return [*act.apply, *act.undo, *act.read, *act.warm]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_says_what_it_is(kind):
    fault = CATALOGUE[kind]
    assert fault.kind == kind
    assert docs.summary(fault).endswith((".", ":"))
    assert fault.counts
    assert fault.proves
    assert fault.example["kind"] == kind
    described = fault.model_json_schema()["properties"]
    assert [name for name, field in described.items() if not field.get("description")] == []


@pytest.mark.parametrize("kind", AVAILABLE)
def test_a_kind_has_real_readings_that_show_it_and_that_do_not(kind):
    seen = {(one.in_force, one.acted > 0) for one in recorded(kind)}
    assert (True, True) in seen
    assert CATALOGUE[kind].on_machine or len(seen) > 1


@pytest.mark.parametrize("name", SPECS)
def test_the_plan_is_the_golden_one(name):
    assert golden_plans.plan_of(name) == json.loads((GOLDEN / f"{name}.json").read_text())


def test_there_is_no_golden_plan_of_nothing():
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(SPECS)


@pytest.mark.parametrize("name", SPECS)
def test_the_parameters_are_a_spec_again(name):
    fault = faults.parse(SPECS[name])
    again = {"kind": fault.kind, **fault.params()}
    assert faults.parse(json.loads(json.dumps(again))) == fault
    assert all(value not in (None, []) for value in again.values())


@pytest.mark.parametrize("kind", [kind for kind in KINDS if CATALOGUE[kind].unavailable])
def test_a_kind_that_cannot_be_done_is_listed_with_its_reason_and_refused(kind):
    reason = CATALOGUE[kind].unavailable
    assert reason in docs.pages()["README.md"]
    assert reason in docs.pages()[f"{kind}.md"]
    with pytest.raises(ValidationError, match="unavailable here"):
        faults.parse(CATALOGUE[kind].example)


@pytest.mark.parametrize("name", SPECS)
def test_what_a_plan_needs_is_listed(name):
    fault = faults.parse(SPECS[name])
    basic = {"cat"}  # in every guest, and listed where it is used
    programs = {command.argv[0] for command in commands(SPECS[name])}
    assert fault.kind == "custom.commands" or programs - set(fault.needs.programs) - basic <= {GUEST, MACHINE}
    for command in commands(SPECS[name]):
        if command.argv[0] == GUEST:
            assert command.argv[1] in COMMANDS


@pytest.mark.parametrize("name", SPECS)
def test_readings_have_names_of_their_own(name):
    act = faults.parse(SPECS[name]).plan()
    names = [command.name for command in act.read]
    assert len(set(names)) == len(names)
    assert all(names)


@pytest.mark.parametrize("name", SPECS)
def test_no_shell_and_nothing_that_overwrites(name):
    if name.startswith("custom."):
        return  # what a user writes is the user's
    for command in commands(SPECS[name]):
        assert command.argv[0] not in ("sh", "bash", "/bin/sh")
        words = [*command.argv, *command.stdin.split()]
        assert "replace" not in words
        assert "flush" not in words


@pytest.mark.parametrize("name", SPECS)
def test_limits_of_what_a_run_shows_are_sentences(name):
    for said in faults.parse(SPECS[name]).cannot_know():
        assert len(said) > 20
        assert not said.endswith(".")


def test_the_pages_are_those_of_the_code():
    assert docs.differences(docs.FOLDER) == [], "run `make docs`"


def test_a_page_that_is_missing_stale_or_of_nothing_is_seen_and_mended(tmp_path):
    assert docs.main(["--check", str(tmp_path)]) == 1
    assert docs.main(["--write", str(tmp_path)]) == 0
    assert docs.main(["--check", str(tmp_path)]) == 0
    (tmp_path / "net.gone.md").write_text("no such fault")
    (tmp_path / "net.delay.md").write_text("stale")
    (tmp_path / "README.md").unlink()
    assert docs.differences(tmp_path) == ["README.md", "net.delay.md", "net.gone.md"]
    assert docs.main(["--write", str(tmp_path)]) == 0
    assert docs.differences(tmp_path) == []
    assert docs.main([]) == 2


def test_a_page_shows_every_parameter_and_the_commands():
    for kind in AVAILABLE:
        fault, page = CATALOGUE[kind], docs.pages()[f"{kind}.md"]
        for name in fault.model_json_schema()["properties"]:
            assert f"`{name}`" in page
        for command in commands(fault.example):
            assert " ".join(command.argv) in page


def test_the_experiment_schema_knows_every_fault_by_kind():
    schema = schema_of("experiment")
    for kind, fault in CATALOGUE.items():
        described = schema["$defs"][f"fault.{kind}"]
        assert set(fault.example) <= set(described["properties"])
        assert described["additionalProperties"] is False
