"""Latency for system calls and files: as long as asked for, for the threads that made the call and for nobody else."""

import json
from pathlib import Path

import pytest

GROUP = "/sys/fs/cgroup/services/victim"
JOIN = f"mkdir -p {GROUP}; echo $$ > {GROUP}/cgroup.procs;"
TOOL = "python3 /srv/tool.py"
ROOM = 100
"""Milliseconds that emulation may add to a call in the middle; single ones are later at times."""


@pytest.fixture(scope="module", autouse=True)
def _prepared(bench):
    bench.put("/srv/tool.py", (Path(__file__).parent / "syscall_tool.py").read_text())
    bench.run(f"mkdir -p {GROUP} /srv/dir; chmod 755 /srv; for n in x y dir/z; do echo hi > /srv/$n; done")


def victim(words, join=JOIN):
    """A process that is there before the act and does its work when /srv/go is there. Its words go to /srv/said."""
    return f"rm -f /srv/go /srv/said; {join} exec {TOOL} later /srv/go {words} > /srv/said 2>&1"


GO = "touch /srv/go; for i in $(seq 100); do sleep 0.1; [ -s /srv/said ] && break; done; sleep 0.2; cat /srv/said"


def times(text):
    return [int(word) for word in text.split() if word.isdigit()]


def as_asked(text, delay):
    """None earlier, most of them hardly later."""
    took = sorted(times(text))
    assert took[0] >= delay, text
    assert took[len(took) // 2] < delay + ROOM, text


def tracer(trial, label="after"):
    return json.loads(trial.receipt.readings[label].outputs["bpf"].out)["tracer"]


def test_only_the_calls_that_are_meant_take_longer_and_as_long_as_asked(bench):
    spec = {"kind": "file.delay", "service": "victim", "path": "/srv/x", "operation": "read", "delay": "200ms"}
    bystander = [f"{TOOL} timed read /srv/x 5", f"{JOIN} {TOOL} timed read /srv/y 5"]
    trial = bench.attempt(spec, loads=[victim("timed read /srv/x 5")], under=[GO, *bystander], settle=1)
    trial.proven()
    as_asked(trial.said[0], 200)
    for said in trial.said[1:]:
        assert sorted(times(said))[2] < ROOM, trial.said
    assert trial.acted == 5
    assert tracer(trial)["waited"] == 1
    assert bench.run(f"{JOIN} {TOOL} timed read /srv/x 1; ls -A /sys/fs/bpf/stormcell").strip().isdigit()


def test_each_thread_waits_for_itself_and_children_are_met(bench):
    spec = {"kind": "syscall.delay", "name": "stormvictim", "call": "fsync", "delay": "300ms"}
    named = "cp /usr/bin/python3 /srv/stormvictim; rm -f /srv/go /srv/said; exec /srv/stormvictim /srv/tool.py"
    load = f"{named} later /srv/go together fsync /srv/x 3 > /srv/said"
    trial = bench.attempt(spec, loads=[load], under=[GO.replace("-s /srv/said", "$(wc -l < /srv/said) = 5")], settle=2)
    trial.proven()
    *each, whole = trial.said[0].splitlines()
    assert len(each) == 4
    assert all(took >= 300 for line in each for took in times(line)), trial.said
    assert times(whole)[0] < 3000, "three threads and a child wait at the same time, not one after the other"
    assert trial.acted == 12


def test_every_nth_with_jitter_changed_in_place(bench):
    spec = {
        "kind": "syscall.delay",
        "service": "victim",
        "call": "poll",
        "delay": "100ms",
        "jitter": "50ms",
        "every": 2,
    }
    change = "stormcell-guest delay change fault 0.3 0 rate=1000000 every=3 limit=4"
    load = victim("timed poll /srv/x 20")
    trial = bench.attempt(spec, loads=[load], under=[f"{change}; {GO}"], settle=1)
    assert len([t for t in times(trial.said[0]) if t >= 300]) == 4, trial.said
    assert trial.acted == 4
    assert trial.receipt.in_force is False, "it is no longer what was asked for"
    trial = bench.attempt(spec, loads=[load], under=[GO], settle=1)
    trial.proven()
    took = sorted(times(trial.said[0]))[10:]
    assert trial.acted == 10
    assert 50 <= took[0] < took[5] < 150 + ROOM
    assert 0.5 < tracer(trial)["waited"] < 1.5


def test_signals_of_others_are_not_swallowed_and_a_thread_that_blocks_them_is_counted(bench):
    spec = {"kind": "file.delay", "service": "victim", "path": "/srv/x", "operation": "read", "delay": "100ms"}
    trial = bench.attempt(spec, loads=[victim("urgent /srv/x")], under=[GO], settle=1)
    trial.proven()
    assert "seen 1" in trial.said[0]
    assert "pending 0" in trial.said[0]
    assert trial.acted == 5
    assert any("2 calls were not delayed" in note for note in trial.receipt.notes)


def test_an_unprivileged_user_who_comes_later(bench):
    spec = {"kind": "syscall.delay", "user": "nobody", "call": "fsync", "delay": "100ms"}
    bench.run("chmod 666 /srv/x")
    late = f"su nobody -s /bin/sh -c 'sleep 0.5; exec {TOOL} timed fsync /srv/x 6 100'"
    trial = bench.attempt(spec, under=[late])
    trial.proven()
    assert len([took for took in times(trial.said[0]) if took >= 100]) >= 3
    assert trial.acted >= 3, "the first may come before it is traced"


def test_a_stopped_process_stays_stopped_and_a_debugger_is_left_alone(bench):
    spec = {"kind": "syscall.delay", "service": "victim", "call": "fsync", "delay": "50ms"}
    load = victim("timed fsync /srv/x 3")
    state = "pid=$(pgrep -f '[l]ater /srv/go'); kill -STOP $pid; sleep 0.3; awk '/State/ {print $2}' /proc/$pid/status"
    go_on = "touch /srv/go; sleep 0.5; cat /srv/said; kill -CONT $(pgrep -f '[l]ater /srv/go')"
    trial = bench.attempt(spec, loads=[load], under=[state, go_on, GO], settle=1)
    trial.proven()
    assert trial.said[0].strip() in ("t", "T")
    assert trial.said[1] == ""
    as_asked(trial.said[2], 50)


def test_a_tracer_that_is_killed_holds_nobody(bench):
    spec = {"kind": "syscall.delay", "service": "victim", "call": "fsync", "delay": "30s"}
    load = victim("timed fsync /srv/x 1")
    kill = "touch /srv/go; sleep 0.7; kill -9 $(cat /sys/fs/cgroup/stormcell/faults/fault/cgroup.procs)"
    trial = bench.attempt(spec, loads=[load], under=[kill, GO], settle=1)
    assert times(trial.said[1])[0] < 3000
    assert trial.receipt.in_force is False
    assert trial.receipt.clean


def test_the_undo_lets_go_at_once_and_can_be_done_twice(bench):
    words = "by=service what=victim call=fsync rate=1000000 every=0 limit=0"
    bench.put("/srv/victim.sh", victim("timed fsync /srv/x 1"))
    bench.run("sh /srv/victim.sh & sleep 1.5")
    bench.run(f"stormcell-guest delay apply a.b 60 0 {words}; touch /srv/go; sleep 0.5; test ! -s /srv/said")
    bench.run("stormcell-guest delay clear a.b; stormcell-guest delay clear a.b; sleep 0.5; test -s /srv/said")
    assert (
        bench.run("ls -A /sys/fs/bpf/stormcell; ls -d /sys/fs/cgroup/stormcell/faults 2>&1; true").count("No such") == 1
    )


def test_in_force_but_nothing_was_called(bench):
    spec = {"kind": "syscall.delay", "service": "victim", "call": "fsync", "delay": "50ms", "path": "/srv/y"}
    trial = bench.attempt(spec, loads=[victim("timed fsync /srv/x 3")], under=[GO], settle=1)
    assert (trial.receipt.in_force, trial.receipt.clean, trial.acted) == (True, True, 0)
    refused = bench.attempt({**spec, "service": "nosuch"})
    assert "No such file or directory" in refused.stop
    assert refused.receipt.clean
