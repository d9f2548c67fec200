"""Faults that are programs in the kernel: input, plans, and readings that show another parameter than was asked for."""

import json
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stormcell import faults
from stormcell.faults._bpf import Programs
from stormcell.guest.tools import common
from stormcell.guest.tools.bpf import calls, delays, loader
from stormcell.guest.tools.bpf import config as bpf_config
from stormcell.guest.tools.bpf import tool as bpf
from stormcell.guest.tools.traced import delay, seizer, shorten
from stormcell.spec.fault import Output, Reading
from tests.unit.faults.fault_cases import compares, one

NAMES = [call.name for call in calls.CALLS]
ERRNO = {"kind": "syscall.errno", "service": "web", "call": "open", "errno": "EIO"}
FILE = {"kind": "file.errno", "path": "/srv", "operation": "read", "errno": "EIO"}
DELAY = {"kind": "syscall.delay", "service": "web", "call": "fsync", "delay": "1s"}
SHORT = {"kind": "file.short", "path": "/srv", "service": "web"}
CORRUPT = {"kind": "file.corrupt", "path": "/srv"}

WRONG = [
    ({**ERRNO, "call": "opne"}, "there is no group of calls 'opne' here; did you mean 'open'?"),
    ({**ERRNO, "call": "openat"}, "there is no group of calls 'openat' here; did you mean 'open'?"),
    ({**ERRNO, "call": "fsync"}, "there is no group of calls 'fsync' here"),
    ({**ERRNO, "call": []}, "a list of different ones"),
    ({**ERRNO, "call": ["open", "open"]}, "a list of different ones"),
    ({**ERRNO, "call": 3}, "there is no group of calls '3' here"),
    ({**ERRNO, "errno": "EIOO"}, "there is no errno 'EIOO'; did you mean 'EIO'?"),
    ({**ERRNO, "errno": "__name__"}, "there is no errno '__name__'"),
    ({**ERRNO, "errno": "errorcode"}, "there is no errno 'errorcode'"),
    ({**ERRNO, "errno": 5}, "valid string"),
    ({**ERRNO, "rate": "0%"}, "less than 0.0001% does nothing"),
    ({**ERRNO, "rate": "50%", "every": 2}, "two ways to say how often"),
    ({**ERRNO, "every": 0}, "greater than or equal to 1"),
    ({**ERRNO, "limit": "5"}, "valid integer"),
    ({**ERRNO, "call": ["open", "connect"], "path": "/x"}, "'path' is about files, and connect is not"),
    ({**ERRNO, "call": "open", "remote_port": 80}, "addresses and ports are of sockets; open has none"),
    ({**ERRNO, "call": "send", "address": [f"10.0.0.{n}" for n in range(9)]}, "9 addresses are given; at most 8"),
    ({**ERRNO, "path": "x"}, "no absolute path"),
    ({**ERRNO, "pid": 7}, "'service' and 'pid' are given"),
    ({"kind": "syscall.errno", "call": "open", "errno": "EIO"}, "none is given"),
    ({**FILE, "operation": "connect"}, "there is no group of calls 'connect' here"),
    ({**FILE, "path": "/"}, "'/' is used by the sandbox itself"),
    ({**FILE, "path": "/run"}, "'/run' is used by the sandbox itself"),
    ({**FILE, "path": "/usr/share/x"}, "is used by the sandbox itself"),
    ({**FILE, "user": "a", "pid": 3}, "several targets are given"),
    ({**FILE, "processes": "main"}, "is about a service"),
    ({**CORRUPT, "bytes": 0}, "greater than or equal to 1"),
    ({**CORRUPT, "bytes": 65}, "less than or equal to 64"),
    ({**CORRUPT, "path": "/etc/passwd"}, "is used by the sandbox itself"),
    ({**DELAY, "delay": "0s"}, "between 1ms and 10m"),
    ({**DELAY, "delay": "11m"}, "between 1ms and 10m"),
    ({**DELAY, "jitter": "2s"}, "larger than the delay"),
    ({**DELAY, "call": "close"}, "there is no group of calls 'close' here"),
    ({**DELAY, "call": ["fsync", "poll"], "path": "/x"}, "'path' cannot be told of poll"),
    ({"kind": "file.delay", "path": "/x", "operation": "read", "delay": "1s"}, "none is given"),
    (
        {"kind": "file.delay", "path": "/x", "operation": "stat", "delay": "1s", "pid": 7},
        "no group of calls 'stat' here",
    ),
    ({**SHORT, "share": "100%"}, "more than 0% and less than 100%"),
    ({**SHORT, "share": "0%"}, "more than 0% and less than 100%"),
    ({**SHORT, "operation": "open"}, "there is no group of calls 'open' here"),
    ({"kind": "file.short", "path": "/srv"}, "none is given"),
    ({"kind": "syscall.override", "function": "x", "errno": "EIO"}, "CONFIG_BPF_KPROBE_OVERRIDE"),
    ({"kind": "syscall.failslab", "service": "x", "rate": "1%"}, "CONFIG_FAILSLAB"),
]


@pytest.mark.parametrize(("spec", "said"), WRONG, ids=[f"{i}-{said[:30]}" for i, (_, said) in enumerate(WRONG)])
def test_wrong_input_is_refused_with_a_reason(spec, said):
    with pytest.raises(ValidationError) as refused:
        faults.parse(spec)
    assert said in str(refused.value)


OTHER_PARAMETERS = [
    ("syscall.errno", {"errno": "ENFILE"}),
    ("syscall.errno", {"call": ["open", "read"]}),
    ("syscall.errno", {"call": "stat"}),
    ("syscall.errno", {"rate": "61%"}),
    ("syscall.errno", {"limit": 9}),
    ("syscall.errno", {"path": "/srv/z"}),
    ("syscall.errno", {"path": None}),
    ("syscall.errno", {"service": "other"}),
    ("syscall.errno", {"service": None, "user": "victim"}),
    ("syscall.errno", {"processes": "main"}),
    ("syscall.errno.sockets", {"address": ["127.0.0.0/9", "::1"]}),
    ("syscall.errno.sockets", {"address": None}),
    ("syscall.errno.sockets", {"remote_port": 7002}),
    ("syscall.errno.sockets", {"local_port": 7001}),
    ("syscall.errno.sockets", {"every": 2}),
    ("syscall.errno.sockets", {"limit": None}),
    ("syscall.errno.sockets", {"cgroup": "/sys/fs/cgroup/services"}),
    ("file.errno", {"operation": ["read", "write"]}),
    ("file.errno", {"path": "/srv"}),
    ("file.errno", {"user": "nobody"}),
    ("syscall.delay", {"delay": "31ms"}),
    ("syscall.delay", {"jitter": "9ms"}),
    ("syscall.delay", {"call": "fsync"}),
    ("syscall.delay", {"every": 2}),
    ("file.delay", {"every": None}),
    ("file.delay", {"operation": "fsync"}),
    ("file.delay", {"path": "/srv"}),
    ("file.delay", {"service": "other"}),
    ("file.short", {"share": "41%"}),
    ("file.short", {"rate": "91%"}),
    ("file.short", {"limit": 9}),
    ("file.short", {"path": "/srv/y"}),
    ("file.short", {"operation": "read"}),
    ("file.short", {"cgroup": "/sys/fs/cgroup/services"}),
    ("file.corrupt", {"bytes": 3}),
    ("file.corrupt", {"rate": "91%"}),
    ("file.corrupt", {"path": "/srv/other"}),
]


@pytest.mark.parametrize(("name", "other"), OTHER_PARAMETERS)
def test_every_parameter_is_compared_with_what_the_kernel_shows(name, other):
    compares(name, other)


@pytest.mark.parametrize("name", ["syscall.errno", "syscall.errno.name", "file.errno", "file.corrupt"])
def test_programs_that_are_not_attached_or_off_are_not_in_force(name):
    record = one(name)
    shown = json.loads(record.during.outputs["bpf"].out)
    for broken in ({**shown, "links": shown["links"][1:]}, {**shown, "on": False}, {**shown, "links": []}):
        reading = Reading(outputs={"bpf": Output(exit=0, out=json.dumps(broken))})
        assert not record.fault.in_force(record.before, reading)
        assert not record.fault.clean(record.before, reading)


def test_a_name_that_means_something_else_by_now_is_seen():
    """The guest's tool says `path` and `what` only while the kernel has what they mean."""
    config = bpf_config.Config(by=bpf_config.BY_CGROUP, cgroup=7, level=2, calls=1)
    asked = {"by": "service", "what": "web"}
    now = bpf_config.Config(by=bpf_config.BY_CGROUP, cgroup=7, level=2)
    assert bpf_config.as_words(config, asked, now, NAMES)["what"] == "web"
    now.cgroup = 8
    assert "what" not in bpf_config.as_words(config, asked, now, NAMES)
    assert "what" not in bpf_config.as_words(config, asked, None, NAMES)


def test_who_was_hit_is_noted_and_the_amounts_agree():
    record = one("syscall.errno")
    notes = record.fault.notes(record.before, record.during, record.after)
    shown = json.loads(record.after.outputs["bpf"].out)
    assert any("open answered EMFILE" in note for note in notes)
    assert any("open let pass" in note for note in notes)
    assert record.acted == sum(hit["count"] for hit in shown["hits"] if hit["errno"])
    assert shown["totals"]["matched"] == sum(hit["count"] for hit in shown["hits"]) == 30


def test_what_can_change_in_place_does_and_what_cannot_does_not():
    fault = faults.parse(ERRNO)
    change = fault.change(faults.parse({**ERRNO, "errno": "ENOSPC", "rate": "7%"}))
    assert change is not None
    assert change[0].argv[1:] == ("bpf", "change", "fault", "errno=ENOSPC", "rate=70000", "every=0", "limit=0")
    assert fault.change(faults.parse({**ERRNO, "call": "stat"})) is None
    assert fault.change(faults.parse({**ERRNO, "service": "other"})) is None
    delay = faults.parse(DELAY)
    change = delay.change(faults.parse({**DELAY, "delay": "20ms", "jitter": "1ms", "limit": 5}))
    assert change is not None
    assert change[0].argv[1:] == (
        "delay", "change", "fault", "0.02", "0.001", "rate=1000000", "every=0", "limit=5",
    )  # fmt: skip
    assert delay.change(faults.parse({**DELAY, "call": "poll"})) is None
    short = faults.parse(SHORT)
    change = short.change(faults.parse({**SHORT, "share": "10%", "every": 2}))
    assert change is not None
    assert change[0].argv[1:] == (
        "shorten", "change", "fault", "share=100000", "rate=1000000", "every=2", "limit=0",
    )  # fmt: skip
    assert short.change(faults.parse({**SHORT, "path": "/srv/x"})) is None
    corrupt = faults.parse(CORRUPT)
    assert corrupt.change(faults.parse({**CORRUPT, "every": 4})) is not None
    assert corrupt.change(faults.parse({**CORRUPT, "bytes": 4})) is None


@given(
    call=st.lists(st.sampled_from([call.name for call in calls.CALLS]), min_size=1, unique=True),
    err=st.sampled_from(["EIO", "EPERM", "ENOSPC", "ETIMEDOUT"]),
    rate=st.integers(1, 1_000_000),
    limit=st.none() | st.integers(1, 10**9),
)
@settings(max_examples=200, deadline=None)
def test_words_and_bytes_of_a_configuration_are_the_same_thing(call, err, rate, limit):
    spec = {"kind": "syscall.errno", "pid": 7, "call": call, "errno": err, "rate": f"{rate / 10_000}%", "limit": limit}
    fault = faults.parse({key: value for key, value in spec.items() if value is not None})
    assert isinstance(fault, Programs)
    words = dict(word.split("=", 1) for word in (*fault.words(), *fault.amounts()))
    assert words["rate"] == str(rate)
    config = bpf_config.Config(on=1)
    bpf_config.amounts(words, config)
    for name in words["call"].split(","):
        config.calls |= 1 << calls.NUMBER[name]
    told = bpf_config.as_words(bpf_config.unpacked(config.packed()), words, None, NAMES)
    assert told == {key: value for key, value in words.items() if key not in ("by", "what")}
    assert fault.programs() >= set(calls.hooks_of(call))


KEYS = ["links", "config", "on", "totals", "acted", "lost", "hits", "count", "errno", "tracer", "held"]
WRITTEN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12,
)


@given(WRITTEN, st.sampled_from([ERRNO, FILE, DELAY, SHORT, CORRUPT]))
@settings(max_examples=300, deadline=None)
def test_whatever_a_guest_writes_is_judged_without_a_crash(written, spec):
    fault = faults.parse(spec)
    reading = Reading(outputs={name: Output(exit=0, out=json.dumps(written)) for name in ("bpf", "short")})
    assert fault.in_force(reading, reading) is False
    assert fault.acted(Reading(), reading) >= 0
    fault.clean(reading, reading)
    fault.notes(reading, reading, reading)


@pytest.mark.parametrize("name", ["syscall.delay", "file.delay"])
def test_without_its_tracer_a_delay_is_not_in_force_and_with_it_not_gone(name):
    record = one(name)
    assert record.undone is not None
    shown = json.loads(record.during.outputs["bpf"].out)
    dead = Reading(outputs={"bpf": Output(exit=0, out=json.dumps({**shown, "tracer": None}))})
    assert not record.fault.in_force(record.before, dead)
    gone = json.loads(record.undone.outputs["bpf"].out)
    for left in ({**gone, "left": True}, {**gone, "tracer": shown["tracer"]}):
        reading = Reading(outputs={"bpf": Output(exit=0, out=json.dumps(left))})
        assert not record.fault.clean(record.before, reading)
    assert any("calls were held" in note for note in record.fault.notes(record.before, record.during, record.after))


def test_a_system_call_belongs_to_one_group_of_delays():
    numbers = [number for group in delays.GROUPS for number in group.numbers]
    assert len(numbers) == len(set(numbers)) < 256


def test_threads_that_the_kernel_says_another_traces_are_not_held():
    record = one("file.short")
    shown = json.loads(record.during.outputs["short"].out)
    assert shown["tracer"]["threads"] == shown["tracer"]["held"] > 0
    shown["tracer"]["held"] -= 1
    reading = Reading(outputs={"short": Output(exit=0, out=json.dumps(shown))})
    assert not record.fault.in_force(record.before, reading)
    assert any("hit" in note for note in record.fault.notes(record.before, record.during, record.after))


@pytest.mark.parametrize(
    ("one_target", "other_target", "apart"),
    [
        ({"service": "web"}, {"service": "web"}, False),
        ({"service": "web"}, {"service": "db"}, True),
        ({"service": "web", "processes": "main"}, {"service": "db"}, True),
        ({"service": "web", "processes": "main"}, {"service": "web"}, False),
        ({"service": "web"}, {"name": "nginx"}, False),
        ({"pid": 7}, {"pid": 8}, True),
        ({"user": "www"}, {"port": 80}, False),
        ({"cgroup": "/sys/fs/cgroup/a"}, {"cgroup": "/sys/fs/cgroup/a/b"}, False),
        ({"cgroup": "/sys/fs/cgroup/a"}, {"cgroup": "/sys/fs/cgroup/ab"}, True),
    ],
)
def test_a_thread_has_one_tracer(one_target, other_target, apart):
    delay = {"kind": "syscall.delay", "call": "fsync", "delay": "1s"}
    first = faults.parse({**delay, **one_target})
    for second in (
        faults.parse({**delay, **other_target}),
        faults.parse({"kind": "file.short", "path": "/x", **other_target}),
    ):
        for pair in ((first, second), (second, first)):
            assert (pair[0].conflicts(pair[1]) is None) is apart
    assert first.conflicts(faults.parse(ERRNO)) is None


def test_numbers_of_system_calls_are_those_of_one_machine(monkeypatch):
    seizer.only_here()
    monkeypatch.setattr("os.uname", lambda: SimpleNamespace(machine="riscv64"))
    with pytest.raises(ValueError, match="of riscv64 are not known here"):
        seizer.only_here()


@pytest.mark.parametrize(
    ("tool", "words", "code", "said"),
    [
        (bpf, [], 2, "usage: stormcell-guest bpf load|apply|change|show|clear"),
        (bpf, ["clear"], 2, "bpf clear takes (mark)"),
        (delay, ["apply", "m"], 2, "delay apply takes (mark, delay, jitter, given)"),
        (shorten, ["start", "m", "by=pid", "what=1", "path=/no/such"], 1, "/no/such: No such file or directory"),
        (shorten, ["change", "no-such-mark", "rate=1"], 1, "the tracer of this fault does not run"),
    ],
)
def test_a_call_that_cannot_be_meant_or_fails_says_why(tool, words, code, said, capsys):
    assert tool.main(words) == code
    assert said in capsys.readouterr().err


def test_what_is_not_there_is_shown_as_such_and_can_be_cleared(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(loader, "ROOT", str(tmp_path))
    monkeypatch.setattr(common, "MARKS", str(tmp_path / "marks"))
    assert bpf.main(["show", "m", "errno", "call=open", "errno=EIO"]) == 0
    assert json.loads(capsys.readouterr().out)["links"] == []
    assert bpf.main(["clear", "m"]) == 0
    assert shorten.main(["show", "m"]) == 0
    assert json.loads(capsys.readouterr().out) == {"tracer": None, "left": False}
    assert loader.place("a.b%c") == f"{tmp_path}/a%2eb%25c", "names with dots are the kernel's"


def test_a_path_is_found_by_inode_and_by_name(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    config = bpf_config.Config()
    bpf_config.where(str(tmp_path / "folder"), config)
    assert [inode for inode, _ in config.inodes] == [(tmp_path / "folder").stat().st_ino]
    assert (config.paths, config.name) == (1, b"")
    for name, there in (("file", True), ("later", False)):
        config = bpf_config.Config()
        bpf_config.where(str(tmp_path / name), config)
        assert (config.name, config.parent) == (name.encode(), tmp_path.stat().st_ino)
        assert bool(config.inodes) is there
    with pytest.raises(ValueError, match="more than 63 bytes"):
        bpf_config.where(str(tmp_path / ("x" * 64)), bpf_config.Config())
