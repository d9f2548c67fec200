"""Bad input: one clear message with a way out, exit code 2, nothing started, no traceback."""

import pytest

from tests.e2e.stormcell_command import json_of, stormcell

pytestmark = pytest.mark.e2e

GOOD = """\
name: fine
template: base
steady_state:
  - name: alive
    command: {run: "exit 0"}
    expect: {exit_code: 0}
fault: {kind: net.delay, device: lo, delay: 100ms}
"""


@pytest.fixture
def refused(tmp_path):
    """Run a changed experiment in an empty home; hand back what was said."""

    def run(text):
        file = tmp_path / "x.yaml"
        file.write_text(text)
        done = stormcell("run", file, home=tmp_path / "home")
        assert done.returncode == 2, done.stderr
        assert "Traceback" not in done.stderr + done.stdout
        assert done.stdout == ""
        assert not (tmp_path / "home" / "state" / "sandboxes").exists()
        assert not (tmp_path / "home" / "state" / "runs").exists()
        return done.stderr

    return run


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("net.delay", "net.dealy", ["x.yaml:7", "did you mean 'net.delay'?"]),
        ("delay: 100ms", "dleay: 100ms", ["x.yaml:7", "did you mean 'delay'?"]),
        ("delay: 100ms", "delay: 100", ["x.yaml:7", "unit"]),
        ("delay: 100ms", "delay: -100ms", ["x.yaml:7", "out of range"]),
        ("delay: 100ms", "delay: 100parsec", ["x.yaml:7", "is no unit"]),
        ("device: lo", "device: 'lo; rm -rf /'", ["x.yaml:7"]),
        ("exit_code: 0", "exitcode: 0", ["x.yaml:6", "did you mean 'exit_code'?"]),
        ("    expect: {exit_code: 0}\n", "", ["x.yaml:4", "has no tolerance"]),
        ("template: base", "template: bsae", ["did you mean 'base'?"]),
        ("template: base", "template: ./nowhere.yaml", ["x.yaml:2", "is not there"]),
        ("name: fine", "name: [fine", ["x.yaml:", "no valid YAML"]),
        ("kind: net.delay, device: lo, delay: 100ms", "kind: memory.limit, service: redis, max: 64MiB", ["redis"]),
    ],
)
def test_a_wrong_spec_is_refused_with_its_line(refused, old, new, said):
    assert old in GOOD
    message = refused(GOOD.replace(old, new, 1))
    for part in [*said, "nothing was started"]:
        assert part in message


def test_every_file_is_checked_before_the_first_is_run(tmp_path):
    (tmp_path / "good.yaml").write_text(GOOD)
    (tmp_path / "bad.yaml").write_text(GOOD.replace("net.delay", "net.dealy"))
    done = stormcell("run", tmp_path / "good.yaml", tmp_path / "bad.yaml", home=tmp_path / "home")
    assert done.returncode == 2
    assert "bad.yaml:7" in done.stderr
    assert not (tmp_path / "home" / "state" / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rn"], "did you mean 'run'?"),
        (["run"], "FILES"),
        (["run", "nowhere.yaml"], "nowhere.yaml"),
        (["run", "--drop", "x.yaml"], "--drop"),
        (["faults", "net.dealy"], "did you mean 'net.delay'?"),
        (["judge", "/nonexistent"], "no run's folder"),
        (["sandbox", "pause", "sc-zzzzzzzz"], "sc-zzzzzzzz"),
        (["sandbox", "exec", "../../etc", "--", "true"], "no sandbox"),
        (["sandbox", "create", "--template", "nothing-like-it"], "nothing-like-it"),
        (["template", "show", "nothing-like-it"], "no template"),
        (["schema", "nothing"], "nothing"),
    ],
)
def test_bad_usage_is_one_message(arguments, said, tmp_path):
    done = stormcell(*arguments, home=tmp_path / "home")
    assert done.returncode in (2, 125)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_home_that_may_not_be_written_to_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "x.yaml").write_text(GOOD)
    done = stormcell("run", tmp_path / "x.yaml", home=tmp_path / "file" / "home")
    assert done.returncode == 2
    assert str(tmp_path / "file") in done.stderr
    assert "Traceback" not in done.stderr


def test_errors_are_json_too(tmp_path):
    done = stormcell("judge", tmp_path, "--json")
    assert done.returncode == 2
    assert json_of(done)["error"] == "SpecError"


def test_a_missing_program_is_named_with_its_package(tmp_path):
    (tmp_path / "x.yaml").write_text(GOOD)
    done = stormcell("run", tmp_path / "x.yaml", home=tmp_path / "home", path=str(tmp_path))
    assert done.returncode == 2
    assert "is not installed" in done.stderr
    assert "apt-get install" in done.stderr
