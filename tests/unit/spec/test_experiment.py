"""Bad input: one clear error with the file, the line, the field, the rule and a way to mend it."""

import pytest

from stormcell.spec.errors import SpecError
from stormcell.spec.experiment import Experiment
from stormcell.spec.verdict import Verdict
from stormcell.spec.yamlfile import parse, validated

GOOD = """\
name: slow-database
question: Does it hold?
open_ports: {web: 8080}
setup:
  - run: "true"
steady_state:
  - name: checkout
    http: {url: "http://web/orders", rate: 5/s, for: 6s}
    from: host
    expect: {success_rate: ">= 99%", p95: "<= 500ms"}
    under_fault: {p95: "<= 3s"}
  - name: rows
    command: {run: "psql -c x", number: "([0-9]+) rows"}
    expect: {number: [">= 1", "<= 9"], exit_code: 0}
fault: {kind: net.delay, delay: 300ms}
predict: {fails: checkout}
"""


def read(text):
    return validated(parse(text, "x.yaml"), Experiment.model_validate, "experiment")


def test_a_good_one():
    experiment = read(GOOD)
    checkout, rows = experiment.steady_state
    assert [(b.metric, b.op, b.value) for b in checkout.bounds("before")] == [
        ("success_rate", ">=", 0.99),
        ("p95", "<=", 0.5),
    ]
    assert [b.value for b in checkout.bounds("under")] == [0.99, 3.0]
    assert [(b.op, b.value) for b in rows.bounds("recovery")] == [(">=", 1), ("<=", 9), ("==", 0)]
    assert experiment.prediction is not None
    assert experiment.prediction.verdict is Verdict.FAILED
    assert experiment.prediction.probe == "checkout"


def test_what_is_written_out_reads_back_the_same():
    experiment = read(GOOD)
    assert Experiment.model_validate(experiment.model_dump(mode="json", by_alias=True)) == experiment


@pytest.mark.parametrize(
    ("old", "new", "line", "said"),
    [
        ("rate: 5/s", "rte: 5/s", 8, "unknown field 'rte'; did you mean 'rate'?"),
        ("steady_state:", "steady_sate:", 6, "did you mean 'steady_state'?"),
        ("for: 6s", "for: 6", 8, "has no unit"),
        ("for: 6s", "for: 6x", 8, "is no unit of a duration"),
        ('p95: "<= 500ms"', 'p59: "<= 500ms"', 10, "no metric 'p59'; did you mean"),
        ("<= 500ms", "<= 500", 10, "has no unit"),
        (">= 99%", ">= 990%", 10, "between 0 and 1"),
        ('    expect: {success_rate: ">= 99%", p95: "<= 500ms"}\n', "", 7, "has no tolerance"),
        (', number: "([0-9]+) rows"', "", 14, "needs a 'number' pattern"),
        ("([0-9]+) rows", "[0-9]+ rows", 13, "needs one group"),
        ("([0-9]+) rows", "([0-9+ rows", 13, "no regular expression"),
        ("    from: host\n", "    from: moon\n", 9, "known: guest, host"),
        ("http://web/", "http://wbe/", 8, "not in open_ports"),
        ("http://web/", "ftp://web/", 8, "no http:// address"),
        ("web: 8080", "web: 80800", 3, "is no port"),
        ("name: rows", "name: checkout", 12, "two entries for probe 'checkout'"),
        ("name: rows", "name: ../rows", 12, "is no name"),
        ("kind: net.delay, ", "", 15, "the field 'kind' is missing"),
        ("{fails: checkout}", "{fails: chekout}", 16, "did you mean 'checkout'"),
        ("{fails: checkout}", "perhaps", 16, "it is survives, fails"),
        ("rate: 5/s, ", "", 8, "'rate' and 'for' go together"),
        ("rate: 5/s, for: 6s", "rate: 5/s, for: 0s", 8, "nothing would be measured"),
        ("rate: 5/s, for: 6s", "timeout: 0s", 8, "no attempt could succeed"),
        ("http://web/orders", "http://web:99999/", 8, "no http:// address"),
        ("http://web/orders", "http://[::1/", 8, "no http:// address"),
        ("http://web/orders", "http://:80/", 8, "it needs a host"),
        ('http: {url: "http://web/orders", rate', 'tcp: {address: "web:99999", rate', 8, "write HOST:PORT"),
        ('p95: "<= 500ms"}', "p95: []}", 10, "the list of bounds is empty"),
        ('under_fault: {p95: "<= 3s"}', "under_fault: {p95: []}", 11, "the list of bounds is empty"),
        ('[">= 1", "<= 9"]', '"!= nan"', 14, "every number, or none, would meet it"),
        ('[">= 1", "<= 9"]', '"<= 1e999"', 14, "every number, or none, would meet it"),
        ("rate: 5/s, for: 6s", "rate: 10000/s, for: 1h", 8, "more than 100000 attempts"),
        ("question: Does it hold?", "question: [Does", 3, "no valid YAML"),
        ("question: Does it hold?", "name: again", 2, "duplicate key"),
    ],
)
def test_bad_input_names_the_line_and_a_way_out(old, new, line, said):
    assert old in GOOD
    with pytest.raises(SpecError, match=r"x\.yaml:\d+: ") as caught:
        read(GOOD.replace(old, new, 1))
    assert said in str(caught.value)
    assert caught.value.where == f"x.yaml:{line}"


def test_from_may_be_called_as_the_results_call_it():
    assert read(GOOD.replace("    from: host\n", "    vantage: host\n")) == read(GOOD)


def test_a_command_cannot_look_from_the_host():
    text = GOOD.replace("    expect: {number", "    from: host\n    expect: {number")
    with pytest.raises(SpecError, match="looks from the guest"):
        read(text)


@pytest.mark.parametrize(
    "text", ["", "- a\n", "just words", "a: &x [*x]\n", "\x00", "a: !!python/object:os.system x\n"]
)
def test_what_is_no_experiment_is_one_error(text):
    with pytest.raises(SpecError):
        read(text)
