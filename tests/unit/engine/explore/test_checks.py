"""What an exploration varies is checked before anything starts, and an error names the line of the file."""

import pytest

from stormcell.engine.explore.run import space_of
from stormcell.engine.load import load_file, load_mapping
from stormcell.spec.errors import SpecError

FILE = """\
name: late
template: base
steady_state:
  - name: echo
    command: {run: "true"}
    expect: {exit_code: 0}
fault:
  kind: net.delay
  device: lo
  delay: 20ms
hold: 5s
settle: 1s
explore:
  vary:
    fault.delay: [1ms, 20ms]
"""
FIRST = 16
"""The line behind it."""


def refused(tmp_path, more, text=FILE):
    path = tmp_path / "x.yaml"
    path.write_text(text + more)
    with pytest.raises(SpecError) as error:
        space_of(load_file(path))
    assert error.value.where.startswith(f"{path}:")
    return int(error.value.where.rpartition(":")[2]), error.value


@pytest.mark.parametrize(
    ("more", "line", "said"),
    [
        ("    fault.delya: [1ms, 20ms]\n", FIRST, "explore.vary.fault.delya: unknown field 'delya'; did you mean"),
        ("    nothing.there: [1, 2]\n", FIRST, "explore.vary.nothing.there: "),
        ("    settle:\n    - 1s\n    - soon\n    - 3s\n", FIRST + 2, "explore.vary.settle: 'soon' is not a duration"),
        ("    settle: [1s,\n      2s, soon]\n", FIRST + 1, "'soon' is not a duration"),
        ("    settle: [1s, 2s]\n    hold:\n      from: 1s\n      to: 5%\n", FIRST + 1, "not in the same unit"),
        ("    settle:\n      from: 1MiB\n      to: 2MiB\n", FIRST + 1, "explore.vary.settle: "),
        ("    name.x: [1, 2]\n", FIRST, "'name.x' leads nowhere: name is 'late'"),
        ("    steady_state.ehco.expect.exit_code: [0, 1]\n", FIRST, "there is no 'ehco'"),
        ("    settle: [1s, 2s]\n    hold: [1s]\n", FIRST + 1, "explore.vary.hold: one value varies nothing"),
        ("    template: [base, other]\n", FIRST, "explore.vary.template: it is done before the instant"),
        ("    settle: []\n", FIRST, "explore.vary.settle: no value varies nothing"),
        ("  when: {from: 5s, to: 1s}\n", FIRST, "'to' comes after 'from'"),
    ],
)
def test_the_line_is_named(tmp_path, more, line, said):
    found, error = refused(tmp_path, more)
    assert said in str(error)
    assert found == line


def test_values_that_are_wrong_together_name_the_place_where_all_are(tmp_path):
    """Each alone is fine beside the harmless ones."""
    text = FILE.replace("[1ms, 20ms]", "[20ms, 1ms]")
    line, error = refused(tmp_path, "    fault.jitter: [0ms, 10ms]\n", text)
    assert line == FIRST - 2
    assert error.what.startswith("explore.vary: with fault.delay = 1ms, fault.jitter = 10ms: ")
    assert "larger than the delay" in error.what


def test_what_is_valid_only_with_the_others_of_its_case_is_no_error():
    """Values of the file that no case has take no part."""
    vary = {"ttl": ["40s", "50s"], "hold": ["31s", "32s"]}
    probe = {"name": "a", "command": {"run": "true"}, "expect": {"exit_code": 0}}
    fault = {"kind": "net.delay", "device": "lo", "delay": "1ms"}
    mapping = {"name": "x", "template": "base", "steady_state": [probe], "fault": fault, "hold": "1s", "ttl": "30s"}
    assert len(space_of(load_mapping({**mapping, "explore": {"vary": vary}})).dimensions) == 2


def test_an_experiment_of_python_has_no_line():
    probe = {"name": "a", "command": {"run": "true"}, "expect": {"exit_code": 0}}
    fault = {"kind": "net.delay", "device": "lo", "delay": "1ms"}
    mapping = {"name": "x", "template": "base", "steady_state": [probe], "fault": fault}
    with pytest.raises(SpecError, match=r"explore\.vary\.fault\.x: unknown field") as error:
        space_of(load_mapping({**mapping, "explore": {"vary": {"fault.x": [1, 2]}}}))
    assert error.value.where == "experiment"


@pytest.mark.parametrize(
    ("path", "values", "allowed"),
    [
        ("load.w.until", ["undo", "end"], True),
        ("load.w.run", ["sleep 1", "sleep 2"], False),
        ("setup.0.run", ["true", "false"], False),
        ("question", ["a?", "b?"], False),
        ("steady_state.echo.expect.exit_code", [0, 1], True),
        ("recovery.within", ["1s", "2s"], True),
    ],
)
def test_what_is_over_at_the_instant_cannot_vary(path, values, allowed):
    mapping = {
        "name": "late",
        "template": "base",
        "setup": [{"run": "true"}],
        "load": [{"name": "w", "run": "sleep 9"}],
        "steady_state": [{"name": "echo", "command": {"run": "true"}, "expect": {"exit_code": 0}}],
        "fault": {"kind": "net.delay", "device": "lo", "delay": "20ms"},
        "explore": {"vary": {path: values}},
    }
    if allowed:
        assert space_of(load_mapping(mapping)).dimensions
        return
    with pytest.raises(SpecError, match="done before the instant"):
        space_of(load_mapping(mapping))
