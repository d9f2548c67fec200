"""CPU, memory and processes: parameters compared with the kernel, changes in place, conflicts, and hostile readings."""

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from stormcell import faults
from stormcell.faults import CATALOGUE
from stormcell.spec.fault import GUEST, Fault, Output, Reading
from tests.unit.faults.fault_cases import SPECS, compares, recorded

KINDS = [kind for kind in CATALOGUE if kind.split(".")[0] in ("cpu", "memory", "process")]
TARGETS = {
    "service": st.sampled_from(["web", "db-1", "a.b"]),
    "name": st.sampled_from(["redis-server", "java", "my prog"]),
    "pid": st.integers(2, 4_194_304),
    "cgroup": st.sampled_from(["/sys/fs/cgroup/x", "/sys/fs/cgroup/services/web/inner"]),
    "user": st.sampled_from(["nobody", "postgres", "1000"]),
    "port": st.integers(1, 65535),
}
SERVICE = {"service": "web"}

OTHER_PARAMETERS = [
    ("cpu.limit", {"of": "cpu", "percent": "19%"}),
    ("cpu.limit.quota", {"of": "cpu"}),
    ("cpu.limit.quota", {"percent": "49%"}),
    ("cpu.limit.name", {"percent": "31%"}),
    ("cpu.slow", {"speed": "41%"}),
    ("cpu.load", {"percent": "51%"}),
    ("cpu.load", {"of": "cpu"}),
    ("cpu.load", {"workers": 2}),
    ("cpu.load", {"service": None}),
    ("cpu.load.alone", {"workers": 1}),
    ("cpu.load.alone", {"service": "victim"}),
    ("cpu.steal", {"percent": "59%"}),
    ("cpu.steal", {"period": "21ms"}),
    ("cpu.online", {"leave": 2}),
    ("cpu.online.service", {"leave": 2}),
    ("memory.limit.high", {"high": "9MiB"}),
    ("memory.limit.high", {"max": "99MiB"}),
    ("memory.hold", {"size": "64MiB"}),
    ("memory.hold", {"size": "16MiB"}),
    ("memory.hold", {"pages": "shmem"}),
    ("memory.hold", {"service": None}),
    ("memory.hold.file", {"path": "/srv"}),
    ("memory.hold.locked", {"pages": "file"}),
    ("memory.leak", {"by": "2MiB"}),
    ("memory.leak", {"every": "200ms"}),
    ("memory.leak", {"by": "2MiB", "every": "200ms"}),
    ("memory.leak", {"most": "65MiB"}),
    ("memory.oom", {"victim": "any"}),
    ("memory.oom.stressor", {"victim": "target"}),
    ("memory.global-oom", {"victim": "any"}),
    ("memory.swap-off", {"device": "/dev/zram1"}),
    ("memory.drop-caches", {"what": "pagecache"}),
    ("memory.drop-caches", {"sync": False}),
    ("memory.drop-caches.slab", {"what": "all"}),
    ("process.pids", {"max": 2}),
    ("process.pids", {"max": None, "leave": 5}),
    ("process.stop", {"how": "freeze"}),
    ("process.stop.frozen", {"how": "signal"}),
    ("process.signal", {"signal": "USR2"}),
    ("process.signal", {"rate": "51/s"}),
    ("process.signal", {"count": 31}),
    ("process.signal", {"count": None}),
    ("process.descriptors", {"leave": 6}),
    ("process.descriptors.guest", {"leave": 1}),
    ("process.threads", {"leave": 3}),
    ("process.zombies", {"count": 61}),
    ("process.zombies.service", {"service": None}),
]


@pytest.mark.parametrize(("name", "other"), OTHER_PARAMETERS)
def test_every_parameter_is_compared_with_what_the_kernel_shows(name, other):
    compares(name, other)


CHANGES: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"kind": "cpu.limit", **SERVICE, "percent": "20%"}, {"percent": "30%"}, "cpu.max=30%/100000:quota"),
    ({"kind": "cpu.slow", **SERVICE, "speed": "20%"}, {"speed": "50%"}, "cpu.max=50%/5000:cpus"),
    ({"kind": "memory.limit", **SERVICE, "max": "64MiB"}, {"max": "32MiB"}, "memory.max=33554432"),
    ({"kind": "process.pids", **SERVICE, "max": 9}, {"max": 7}, "pids.max=7"),
    ({"kind": "cpu.online", **SERVICE, "leave": 2}, {"leave": 1}, "cpuset.cpus=first:1"),
    ({"kind": "cpu.load", **SERVICE, "percent": "20%"}, {"percent": "30%"}, "30"),
    ({"kind": "cpu.steal", **SERVICE, "percent": "20%"}, {"percent": "30%"}, "30"),
    ({"kind": "memory.hold", **SERVICE, "size": "2MiB"}, {"size": "3MiB"}, "3145728"),
    ({"kind": "process.signal", **SERVICE, "signal": "HUP", "rate": "2/s"}, {"rate": "5/s"}, "5"),
    ({"kind": "process.zombies", "count": 5}, {"count": 50}, "50"),
]


@pytest.mark.parametrize(("spec", "to", "word"), CHANGES, ids=[spec["kind"] for spec, _, _ in CHANGES])
def test_a_running_fault_is_changed_in_place(spec, to, word):
    fault = faults.parse(spec).named("slow", 3)
    commands = fault.change(faults.parse({**spec, **to}))
    assert commands
    assert word in commands[-1].argv
    assert all(command.argv[0] == GUEST and command.argv[3] == "slow" for command in commands)
    other = {key: value for key, value in spec.items() if key != "service"}
    assert fault.change(faults.parse({**other, "name": "elsewhere"})) is None
    assert fault.change(faults.parse({"kind": "clock.jump", "by": "1h"})) is None


CONFLICTS = [
    ({"kind": "cpu.limit", **SERVICE, "percent": "9%"}, {"kind": "cpu.slow", **SERVICE, "speed": "9%"}, "cpu.max"),
    ({"kind": "cpu.limit", **SERVICE, "percent": "9%"},
     {"kind": "cpu.limit", "cgroup": "/sys/fs/cgroup/services/web", "percent": "8%"}, "cpu.max"),
    ({"kind": "memory.limit", "name": "a", "max": "9MiB"}, {"kind": "cpu.slow", "pid": 7, "speed": "9%"},
     "a process is in one"),
    ({"kind": "memory.limit", **SERVICE, "max": "9MiB"}, {"kind": "memory.oom", **SERVICE}, "memory.max"),
    ({"kind": "process.stop", "name": "a", "how": "freeze"}, {"kind": "cpu.slow", "pid": 7, "speed": "9%"},
     "a process is in one"),
    ({"kind": "memory.oom", "name": "a"}, {"kind": "cpu.slow", "pid": 7, "speed": "9%"}, "a process is in one"),
    ({"kind": "process.stop", **SERVICE}, {"kind": "process.stop", **SERVICE, "how": "freeze"}, "stop the same"),
    ({"kind": "cpu.online", "leave": 1}, {"kind": "cpu.online", **SERVICE, "leave": 1}, "which CPUs"),
    ({"kind": "cpu.steal", "percent": "9%"}, {"kind": "cpu.steal", "percent": "8%"}, "ahead of everybody"),
    ({"kind": "memory.oom", **SERVICE}, {"kind": "memory.global-oom", "victim": "any"}, "whose kill"),
    ({"kind": "memory.swap-off"}, {"kind": "memory.swap-off", "device": "/dev/zram0"}, "same swap"),
    ({"kind": "process.descriptors"}, {"kind": "process.descriptors", "leave": 5}, "same limit"),
    ({"kind": "process.threads", "user": "a"}, {"kind": "process.threads", "user": "a"}, "same limit"),
]  # fmt: skip


@pytest.mark.parametrize(("one_of_them", "other", "why"), CONFLICTS)
def test_two_that_would_hide_each_other_are_refused(one_of_them, other, why):
    first, second = faults.parse(one_of_them), faults.parse(other)
    said = first.conflicts(second) or second.conflicts(first)
    assert said is not None
    assert why in said


@pytest.mark.parametrize(
    ("one_of_them", "other"),
    [
        ({"kind": "cpu.limit", **SERVICE, "percent": "9%"}, {"kind": "memory.limit", **SERVICE, "max": "9MiB"}),
        ({"kind": "cpu.limit", **SERVICE, "percent": "9%"}, {"kind": "cpu.limit", "service": "db", "percent": "9%"}),
        ({"kind": "memory.limit", **SERVICE, "max": "9MiB"}, {"kind": "memory.hold", **SERVICE, "size": "9MiB"}),
        ({"kind": "memory.limit", "name": "a", "max": "9MiB"}, {"kind": "cpu.limit", **SERVICE, "percent": "9%"}),
        ({"kind": "process.stop", **SERVICE}, {"kind": "process.stop", "service": "db"}),
        ({"kind": "process.stop", "name": "a"}, {"kind": "cpu.limit", "name": "a", "percent": "9%"}),
        ({"kind": "memory.hold", "size": "9MiB"}, {"kind": "memory.hold", "size": "9MiB"}),
        ({"kind": "cpu.load", "percent": "9%"}, {"kind": "cpu.load", "percent": "9%"}),
        ({"kind": "process.zombies", "count": 9}, {"kind": "process.zombies", "count": 9}),
        ({"kind": "process.descriptors", "name": "a"}, {"kind": "process.descriptors", "name": "b"}),
    ],
)
def test_two_that_leave_each_other_alone_may_be_together(one_of_them, other):
    first, second = faults.parse(one_of_them).named("a", 1), faults.parse(other).named("b", 2)
    assert first.conflicts(second) is None
    assert second.conflicts(first) is None
    assert not {c.argv for c in first.plan().undo} & {c.argv for c in second.plan().undo}, "each has its own mark"


@st.composite
def aimed(draw):
    """A spec of one of our kinds, for any target that it may have."""
    kind = draw(st.sampled_from([k for k in KINDS if "pid" in CATALOGUE[k].model_fields]))
    spec = {key: value for key, value in CATALOGUE[kind].example.items() if key not in TARGETS}
    by = draw(st.sampled_from(sorted(TARGETS)))
    return {**spec, by: draw(TARGETS[by])}, by


@given(aimed())
@settings(max_examples=200, deadline=None)
def test_whatever_the_target_the_guest_is_told_and_the_undo_needs_only_the_name(drawn):
    spec, by = drawn
    fault = faults.parse(spec).named("the-fault", 2)
    act = fault.plan()
    for command in act.apply:
        assert (by, str(spec[by])) in itertools.pairwise(command.argv)
        assert "the-fault" in command.argv
    for command in act.undo:
        assert command.argv[0] == GUEST
        assert command.argv[-1] == "the-fault"
    assert all(str(spec[by]) in command.argv for command in act.read)


KEYS = re.findall(
    r"\w+",
    "files at_act basis moved targets now oom folder holders holders_in begun at used_usec waited_usec target asked "
    "pid comm in state kills victim stressor scores areas off act before after online taken stopped how hits alive "
    "counting refused lowered limit value shown zombies knows",
)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner, max_size=5)
    ),
    max_leaves=16,
)  # fmt: skip
READS = ("cgroup", "burn", "hold", "oom", "swap", "caches", "online", "stop", "storm", "rlimit", "zombies", "victims")


@given(st.sampled_from([name for name in SPECS if SPECS[name]["kind"] in KINDS]), ANYTHING, ANYTHING)
@settings(max_examples=600, deadline=None)
def test_whatever_a_guest_writes_is_judged_without_a_crash(name, first, second):
    fault = faults.parse(SPECS[name])
    readings = [
        Reading(outputs={read: Output(exit=0, out=json.dumps(written)) for read in READS})
        for written in (first, second)
    ]
    before, during = readings
    for one_reading in (*readings, Reading()):
        fault.in_force(before, one_reading)
        fault.lasted(before, during, one_reading)
        assert fault.acted(during, one_reading) >= 0
        fault.clean(before, one_reading)
        fault.notes(before, during, one_reading)


@pytest.mark.parametrize("record", recorded(*KINDS), ids=lambda record: record.name)
def test_a_torn_value_inside_a_reading_is_judged_without_a_crash(record):
    """Every leaf of a real reading in turn becomes something else."""
    fault: Fault = record.fault
    name, output = next(iter(record.after.outputs.items()))
    document = json.loads(output.out)
    for path in paths(document):
        wrongs: tuple[Any, ...] = (None, "x", [], {}, -1, True)
        for wrong in wrongs:
            reading = Reading(outputs={name: Output(exit=0, out=json.dumps(put(document, path, wrong)))})
            fault.in_force(record.before, reading)
            fault.lasted(record.before, record.during, reading)
            assert fault.acted(reading, reading) >= 0
            fault.clean(record.before, reading)
            fault.notes(record.before, reading, reading)


def paths(document, above=()):
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        yield (*above, key)
        yield from paths(value, (*above, key))


def put(document, path, value):
    copy = json.loads(json.dumps(document))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return copy


WRONG = [
    ({"kind": "cpu.limit", **SERVICE, "percent": "20%", "of": "host"}, "'quota' or 'cpu'"),
    ({"kind": "cpu.slow", **SERVICE, "speed": "0.5%"}, "between 1% and 99%"),
    ({"kind": "cpu.slow", **SERVICE, "speed": "100%"}, "between 1% and 99%"),
    ({"kind": "cpu.load", "percent": "250%", "workers": 2}, "2 workers cannot burn 250%"),
    ({"kind": "cpu.load", "percent": "50%", "workers": 0}, "greater than or equal to 1"),
    ({"kind": "cpu.load", "percent": "50%", "pid": 2, "name": "x"}, "'name' and 'pid' are given"),
    ({"kind": "cpu.steal", "percent": "95%"}, "between 1% and 90%"),
    ({"kind": "cpu.steal", "percent": "10%", "period": "2s"}, "between 1ms and 1s"),
    ({"kind": "cpu.online", "leave": 0}, "greater than or equal to 1"),
    ({"kind": "cpu.online", "leave": 1, "processes": "main"}, "is about a service"),
    ({"kind": "memory.limit", **SERVICE}, "'max' or 'high' is needed"),
    ({"kind": "memory.limit", **SERVICE, "high": "4KiB"}, "at least 1MiB"),
    ({"kind": "memory.limit", **SERVICE, "high": "64MiB", "max": "64MiB"}, "is never reached"),
    ({"kind": "memory.hold", "size": "4KiB"}, "at least 1MiB"),
    ({"kind": "memory.hold", "size": "4MiB", "pages": "huge"}, "'anon', 'file', 'shmem' or 'locked'"),
    ({"kind": "memory.hold", "size": "4MiB", "path": "/srv"}, "for `pages: file` alone"),
    ({"kind": "memory.leak", "by": "1KiB", "most": "1MiB"}, "at least 64KiB"),
    ({"kind": "memory.leak", "by": "1MiB", "every": "1ms", "most": "1MiB"}, "between 10ms and 1h"),
    ({"kind": "memory.leak", "by": "2MiB", "most": "1MiB"}, "less than one step"),
    ({"kind": "memory.oom"}, "none is given"),
    ({"kind": "memory.oom", **SERVICE, "room": "1MiB"}, "between 4MiB and 1GiB"),
    ({"kind": "memory.oom", **SERVICE, "victim": "app"}, "'target', 'stressor' or 'any'"),
    ({"kind": "memory.global-oom"}, "needs a target"),
    ({"kind": "memory.swap-off", "device": "zram0"}, "no absolute path"),
    ({"kind": "memory.drop-caches", "what": "everything"}, "'pagecache', 'slab' or 'all'"),
    ({"kind": "process.pids", **SERVICE}, "none is given"),
    ({"kind": "process.pids", **SERVICE, "leave": 1, "max": 2}, "'leave' and 'max' are given"),
    ({"kind": "process.pids", **SERVICE, "leave": -1}, "greater than or equal to 0"),
    ({"kind": "process.stop", **SERVICE, "how": "ptrace"}, "'signal' or 'freeze'"),
    ({"kind": "process.stop"}, "none is given"),
    ({"kind": "process.signal", **SERVICE, "signal": "KILL", "rate": "1/s"}, "'HUP', 'INT'"),
    ({"kind": "process.signal", **SERVICE, "signal": "HUP", "rate": "5000/s"}, "between 1/m and 2000/s"),
    ({"kind": "process.signal", **SERVICE, "signal": "HUP", "rate": 5}, "has no unit"),
    ({"kind": "process.signal", **SERVICE, "signal": "HUP", "rate": "5/s", "count": 0}, "greater than or equal to 1"),
    ({"kind": "process.descriptors", **SERVICE, "leave": -1}, "greater than or equal to 0"),
    ({"kind": "process.threads", "leave": 1}, "none is given"),
    ({"kind": "process.zombies", "count": 0}, "greater than or equal to 1"),
    ({"kind": "process.zombies", "count": "many"}, "valid integer"),
]


@pytest.mark.parametrize(("spec", "said"), WRONG, ids=[f"{i}-{said[:30]}" for i, (_, said) in enumerate(WRONG)])
def test_wrong_input_is_refused_with_a_reason(spec, said):
    with pytest.raises(ValidationError) as refused:
        faults.parse(spec)
    assert said in str(refused.value)
