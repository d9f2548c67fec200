"""What a user reads about a wrong spec: the line, the field, what is there, what is wanted or to be written.

Whole messages, word by word: whoever changes one reads it as a user would.
"""

import pytest

from stormcell.engine.load import load_file
from stormcell.spec.errors import SpecError, StormcellError

FAULT = "{kind: net.delay, device: lo, delay: 300ms}"
GOOD = f"""\
name: x
question: Does it hold?
template: base
open_ports: {{web: 8080}}
setup:
  - run: "true"
load:
  - {{name: users, run: "sleep 9"}}
steady_state:
  - name: checkout
    http: {{url: "http://web/", rate: 5/s, for: 6s}}
    from: host
    expect: {{success_rate: ">= 99%"}}
fault: {FAULT}
predict: survives
"""
HTTP = 'url: "http://web/", rate: 5/s, for: 6s'
EXPECT = '{success_rate: ">= 99%"}'
LIST = "write [a, b], or each entry on a line of its own after '- '"
UNITS = "ns, us, µs, ms, s, m, min, h, d"


def of(schedule: str) -> tuple[str, str]:
    return FAULT, FAULT.replace("}", f", schedule: {schedule}}}")


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (of("{at: 0s}"), 14, "fault.schedule: it says neither when nor for how long, and a fault without a "
         "schedule begins at once; leave it out, or write lasts, pulse, flap, ramp, random or a later 'at', "
         "for example {lasts: 5s}"),
        (of("5s"), 14, "fault.schedule: '5s' is written where a mapping is wanted; write for example {lasts: 5s}"),
        (of("{lasts: 0s}"), 14, "fault.schedule: a length of 0s: the fault would never be in force"),
        (of("{pulse: {on: 1s}}"), 14, "fault.schedule.pulse: the field 'off' is missing"),
        (of("{pulse: {on: 1s, off: 1s, times: many}}"), 14,
         "fault.schedule.pulse.times: 'many' is written where a whole number is wanted; write for example 3"),
        (of("{pulse: {on: 1s, off: 1s, times: 5000}}"), 14,
         "fault.schedule.pulse.times: '5000' is out of range; it is at most 1000"),
        (of("{flap: {on: [1s], off: 1s, times: 2}}"), 14,
         "fault.schedule.flap.on: the list has 1 entry; one more is needed"),
        (of("{flap: {on: [1s, 2s, 3s], off: 1s, times: 2}}"), 14,
         "fault.schedule.flap.on: the list has 3 entries; it needs at most 2"),
        (of("{ramp: {parameter: delay, through: 5, each: 1s}}"), 14,
         f"fault.schedule.ramp.through: '5' is written where a list is wanted; {LIST}"),
        (of("{ramp: {parameter: delay, through: [1s], each: 1s}}"), 14,
         "fault.schedule.ramp.through: the list has 1 entry; it needs at least 2"),
        (of("{ramp: {parameter: delay, through: [1s, x], each: 1s}}"), 14,
         "fault.schedule.ramp: delay = x: 'x' is not a duration; write for example '300ms'"),
        (("name: x", "name: [x]"), 1, "name: a list is written where a text is wanted"),
        (("name: x", "name: 'a b'"), 1, "name: 'a b' is no name: letters, digits and _ . - are allowed, at most 64, "
         "beginning with a letter or a digit; write for example slow-database"),
        (("name: x", "name:"), 1, "name: nothing is written where a text is wanted"),
        (("question: Does it hold?", "question: 5"), 2,
         "question: '5' is written where a text is wanted; write it in quotes: '5'"),
        (("question: Does it hold?", "stormcell: 2"), 2, "stormcell: '2' is written where only 1 is known"),
        (("{web: 8080}", "8080"), 4, "open_ports: '8080' is written where a mapping is wanted; write {field: value}"),
        (("8080", "80800"), 4, "open_ports.web: 80800 is no port; it is 1 to 65535"),
        (('\n  - run: "true"', ' "true"'), 5, f"setup: 'true' is written where a list is wanted; {LIST}"),
        (('- run: "true"', '- "true"'), 6,
         "setup.0: 'true' is written where a mapping is wanted; write for example {run: \"mkdir -p /srv/data\"}"),
        (('run: "true"', "run: 5"), 6, "setup.0.run: '5' is written where a text or a list is wanted"),
        (('run: "true"', "run: [echo, 2]"), 6,
         "setup.0.run.1: '2' is written where a text is wanted; write it in quotes: '2'"),
        (('run: "true"', "run: []"), 6,
         'setup.0.run: there is no command; write for example "curl -sf http://127.0.0.1/"'),
        (('run: "sleep 9"', 'run: "sleep 9", until: forever'), 8,
         "load.0.until: there is no choice 'forever'; known: end, undo"),
        ((f"http: {{{HTTP}}}", "http: here"), 11, "steady_state.0.http: 'here' is written where a mapping is wanted; "
         'write for example {url: "http://127.0.0.1/", rate: 5/s, for: 6s}'),
        (("rate: 5/s", "rate: 5"), 11,
         "steady_state.0.http.rate: '5' has no unit; a frequency needs one of /s, /m, /min, for example '5/s'"),
        (("rate: 5/s, for: 6s", "status: ok"), 11,
         f"steady_state.0.http.status: 'ok' is written where a list is wanted; {LIST}"),
        (("rate: 5/s", "method: GTE, rate: 5/s"), 11, "steady_state.0.http.method: there is no choice 'GTE'; "
         "did you mean 'GET'? (known: GET, POST, PUT, DELETE, HEAD, PATCH)"),
        (("from: host", "from: moon"), 12, "steady_state.0.from: there is no choice 'moon'; known: guest, host"),
        ((EXPECT, "{success_rate: often}"), 13,
         "steady_state.0.expect.success_rate: 'often' is no number; write for example '>= 3'"),
        ((EXPECT, "{success_rate: }"), 13,
         "steady_state.0.expect.success_rate: this is no tolerance; write for example '>= 99%'"),
        (("survives", "[a]"), 15, "predict: a list is written where a text or a mapping is wanted"),
        (("survives", "{fails: chekout}"), 15, "predict.fails: there is no probe 'chekout'; did you mean 'checkout'?"),
        (("predict: survives", 'abort: {probe: checkout, when: {p95: "> 1s"}}'), 15,
         f"abort: a mapping is written where a list is wanted; {LIST}"),
        (("predict: survives", 'abort: [{file: "x", when: "> 1"}]'), 15,
         "abort.0.file: 'x' is no absolute path; write for example /var/lib/app"),
        (("predict: survives", 'abort: [{file: /x, when: "many"}]'), 15,
         "abort.0.when: 'many' is no number; write for example '>= 3'"),
        (("predict: survives", "hold: 5"), 15,
         f"hold: '5' has no unit; a duration needs one of {UNITS}, for example '300ms'"),
        (("predict: survives", "raw_state: maybe"), 15,
         "raw_state: 'maybe' is written where true or false is wanted; write one of the two"),
        ((FAULT, "net.delay"), 14, "fault: 'net.delay' is written where a mapping is wanted; write {field: value}"),
        ((FAULT, "{}"), 14,
         "fault: the field 'kind' is missing; write for example {kind: net.delay, device: lo, delay: 300ms}"),
        ((FAULT, "{kind: net.dely}"), 14,
         "fault.kind: there is no fault 'net.dely'; did you mean 'net.delay'? (`stormcell faults` lists them all)"),
        ((FAULT, "{kind: net.delay, delay: 1s, jitter: 1h}"), 14,
         "fault: the jitter (1h = 3600s) is larger than the delay (1s)"),
        ((FAULT, "{kind: net.loss, loss: 0.5}"), 14,
         "fault.loss: '0.5' has no unit; a percentage needs %, for example '10%'"),
        ((FAULT, "{kind: net.drop, protocol: tpc}"), 14,
         "fault.protocol: there is no choice 'tpc'; did you mean 'tcp'? (known: tcp, udp, icmp)"),
        ((FAULT, "{kind: net.delay, delay: 1s, remote_port: 99999}"), 14,
         "fault.remote_port: '99999' is out of range; it is at most 65535"),
        ((FAULT, "{kind: clock.jump, by: 1800000000000s}"), 14,
         "fault: a jump by 500000000h = 1800000000000s is out of range; it is between 10ms and 50 years, either way"),
        ((FAULT, "{kind: disk.fill, path: /proc}"), 14,
         "fault.path: '/proc' is in a view of the kernel, which is no file system with space to fill"),
        ((f"fault: {FAULT}", "faults: {a: }"), 14,
         "faults.a: nothing is written where a mapping is wanted; write {field: value}"),
        ((f"fault: {FAULT}", f"fault: {FAULT}\nfault: {FAULT}"), 15,
         'this is no valid YAML: found duplicate key "fault"\n  remedy: write each field once'),
    ],
)  # fmt: skip
def test_a_wrong_spec_in_words(tmp_path, change, line, message):
    old, new = change
    assert old in GOOD
    path = tmp_path / "x.yaml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(SpecError) as caught:
        load_file(path)
    assert str(caught.value) == f"{path}:{line}: {message}"


def test_no_message_is_pydantics_own(tmp_path):
    """Every form of every field, with something that it never is."""
    path = tmp_path / "x.yaml"
    lines = GOOD.splitlines()
    for number, text in enumerate(lines):
        field, colon, _ = text.partition(": ")
        for odd in ("[[]]", "{a: {}}", "-7", "2.5", "false", "2026-01-01", '""', "~") if colon else ():
            path.write_text("\n".join([*lines[:number], f"{field}: {odd}", *lines[number + 1 :]]))
            try:
                load_file(path)
            except StormcellError as error:
                for word in ("Input should", "valid tuple", "Tuple", "dictionary", "instance of", "validation"):
                    assert word not in str(error), (text, odd, str(error))
