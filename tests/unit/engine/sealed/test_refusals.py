"""What a sealed run cannot do: each by its field, with what to use instead, before anything starts."""

import pytest

from stormcell import faults
from stormcell.engine.load import load_file, load_mapping
from stormcell.engine.sealed.refusals import NOTHING, check_sealed, refusals
from stormcell.spec.errors import SpecError

PROBE = {"name": "a", "command": {"run": "true"}, "expect": {"exit_code": 0}}
LATE = {"kind": "net.delay", "device": "lo", "delay": "1ms"}
FINE = {"name": "x", "template": "base", "steady_state": [PROBE], "fault": LATE}
OUTSIDE = {"name": "b", "tcp": {"address": "web:80"}, "from": "host", "expect": {"success_rate": 1}}


def loaded(recipe=None, **changes):
    found = load_mapping({**FINE, **changes})
    if recipe:
        found = type(found)(**{**vars(found), "recipe": found.recipe.model_copy(update=recipe)})
    return found


def test_what_can_be_done_is_not_refused():
    check_sealed(loaded())
    check_sealed(loaded(fault={"kind": "machine.crash", "mode": "panic"}))
    check_sealed(loaded(open_ports={"web": 80}))
    check_sealed(loaded(nodes={"n1": {}, "n2": {}}, fault={"kind": "net.delay", "node": "n1", "delay": "1ms"}))


@pytest.mark.parametrize(
    ("changes", "where", "what", "remedy"),
    [
        (
            {"open_ports": {"web": 80}, "steady_state": [PROBE, OUTSIDE]},
            "steady_state.1", "the probe 'b' looks from the host", "from: guest",
        ),
        ({"fault": {"kind": "machine.pause", "for": "1s"}}, "fault", "machine.pause is carried out", "process.stop"),
        ({"fault": {"kind": "machine.link"}}, "fault", "machine.link is carried out by the host", "net.down"),
        ({"fault": {"kind": "machine.slow", "speed": "50%"}}, "fault", "machine.slow is carried out", "cpu."),
        (
            {"fault": {"kind": "net.delay", "device": "eth0", "delay": "1ms"}},
            "fault", "net.delay acts on eth0, and a sealed machine has no card", "device: lo",
        ),
        (
            {"fault": None, "faults": {"one": {"kind": "net.loss", "loss": "1%"}}},
            "faults.one", "net.loss acts on eth0", "device: lo",
        ),
        ({"recipe": {"vcpus": 2}}, "template", "2 processors", "vcpus: 1"),
        ({"recipe": {"memory": 8 << 30}}, "template", "8192 MiB of memory: it is an even number", "another `memory`"),
        (
            {"fault": None, "moment": {"after": "1s"}, "branches": {"b": {"fault": LATE}}},
            "branches", "branches are not sealed", "stormcell explore",
        ),
    ],
)  # fmt: skip
def test_each_is_refused_with_what_to_use_instead(changes, where, what, remedy):
    changes = {key: value for key, value in changes.items() if value is not None}
    base = {key: value for key, value in FINE.items() if key != "fault" or not {"faults", "branches"} & changes.keys()}
    recipe = changes.pop("recipe", None)
    found = load_mapping({**base, **changes})
    if recipe:
        found = type(found)(**{**vars(found), "recipe": found.recipe.model_copy(update=recipe)})
    with pytest.raises(SpecError) as refused:
        check_sealed(found)
    assert refused.value.what.startswith(f"{where}: ") and what in refused.value.what
    assert refused.value.rule == NOTHING
    assert remedy in (refused.value.remedy or "")


def test_what_is_used_instead_exists():
    """A remedy that names a kind names one of the catalogue."""
    named = set()
    for more in (
        {"kind": "machine.pause", "for": "1s"},
        {"kind": "machine.link"},
        {"kind": "machine.slow", "speed": "50%"},
    ):
        for refusal in refusals(loaded(fault=more)):
            named |= {word.strip(",") for word in refusal.remedy.split() if "." in word.strip(",")}
    assert len(named) == 3
    assert named <= set(faults.CATALOGUE)


def test_the_others_are_told_too():
    with pytest.raises(SpecError) as refused:
        check_sealed(
            loaded(open_ports={"web": 80}, steady_state=[OUTSIDE], fault={"kind": "machine.pause", "for": "1s"})
        )
    assert refused.value.what.startswith("steady_state.0")
    assert "fault: machine.pause is carried out by the host" in (refused.value.detail or "")


FILE = """\
name: x
template: base
steady_state:
  - {name: a, command: {run: "true"}, expect: {exit_code: 0}}
faults:
  fine: {kind: net.delay, device: lo, delay: 1ms}
  far:
    kind: net.loss
    loss: 1%
"""


def test_the_line_of_the_file_is_named(tmp_path):
    file = tmp_path / "x.yaml"
    file.write_text(FILE)
    with pytest.raises(SpecError) as refused:
        check_sealed(load_file(file))
    assert refused.value.what.startswith("faults.far: net.loss acts on eth0")
    assert refused.value.where == f"{file}:7"
