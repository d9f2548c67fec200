"""Latency for system calls and files: as long as asked for, for the threads that made the call and for nobody else."""

import json
from pathlib import Path

import pytest

from tests.guest.faults.fault_trial import until

GROUP = "/sys/fs/cgroup/services/victim"
JOIN = f"mkdir -p {GROUP}; echo $$ > {GROUP}/cgroup.procs;"
TOOL = "python3 /srv/tool.py"
ROOM = 100
"""Milliseconds that emulation may add to the quickest of several calls."""
HERE = "[ -e /srv/go.awaited ]"


@pytest.fixture(scope="module", autouse=True)
def _prepared(bench):
    bench.put("/srv/tool.py", (Path(__file__).parent / "syscall_tool.py").read_text())
    bench.run(f"mkdir -p {GROUP} /srv/dir; chmod 755 /srv; for n in x y dir/z; do echo hi > /srv/$n; done")


def victim(words, join=JOIN):
    """A process that is there before the act and does its work when /srv/go is there. Its words go to /srv/said."""
    return f"{join} exec {TOOL} later /srv/go {words} > /srv/said 2>&1"


def waits(words, load=""):
    """With this load the act comes when the process waits for /srv/go."""
    return {"setup": ["rm -f /srv/go* /srv/said"], "loads": [load or victim(words)], "ready": HERE}


def go(lines=1):
    return f"touch /srv/go; {until(f'[ $(wc -l < /srv/said) -ge {lines} ]')}; cat /srv/said"


GO = go()


def times(text):
    return [int(word) for word in text.split() if word.isdigit()]


def as_asked(text, delay):
    """None earlier, the quickest hardly later."""
    assert delay <= min(times(text)) < delay + ROOM, text


def tracer(trial, label="after"):
    return json.loads(trial.receipt.readings[label].outputs["bpf"].out)["tracer"]


def test_only_the_calls_that_are_meant_take_longer_and_as_long_as_asked(bench):
    spec = {"kind": "file.delay", "service": "victim", "path": "/srv/x", "operation": "read", "delay": "200ms"}
    bystander = [f"{TOOL} timed read /srv/x 5", f"{JOIN} {TOOL} timed read /srv/y 5"]
    trial = bench.attempt(spec, **waits("timed read /srv/x 5"), under=[GO, *bystander])
    trial.proven()
    as_asked(trial.said[0], 200)
    for said in trial.said[1:]:
        assert min(times(said)) < ROOM, trial.said
    assert trial.acted == 5
    assert tracer(trial)["waited"] == 1
    assert bench.run(f"{JOIN} {TOOL} timed read /srv/x 1; ls -A /sys/fs/bpf/stormcell").strip().isdigit()


def test_each_thread_waits_for_itself_and_children_are_met(bench):
    spec = {"kind": "syscall.delay", "name": "stormvictim", "call": "fsync", "delay": "300ms"}
    bench.run("cp /usr/bin/python3 /srv/stormvictim")
    load = "exec /srv/stormvictim /srv/tool.py later /srv/go together fsync /srv/x 3 > /srv/said"
    trial = bench.attempt(spec, **waits("", load), under=[go(lines=4)])
    trial.proven()
    each = trial.said[0].splitlines()
    assert len(each) == 4
    took = sorted(took for line in each for took in times(line))
    assert took[0] >= 300, trial.said
    assert took[3] < 900, "three threads and a child wait at the same time, not one after the other"
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
    trial = bench.attempt(spec, **waits("timed poll /srv/x 20"), under=[f"{change}; {GO}"])
    assert len([t for t in times(trial.said[0]) if t >= 300]) >= 4, trial.said
    assert trial.acted == 4
    assert trial.receipt.in_force is False, "it is no longer what was asked for"
    trial = bench.attempt(spec, **waits("timed poll /srv/x 20"), under=[GO])
    trial.proven()
    took = sorted(times(trial.said[0]))[10:]
    assert trial.acted == 10
    assert 50 <= took[0] < 150 + ROOM
    assert took[0] < took[-1]
    assert 0.5 < tracer(trial)["waited"] < 1.5


def test_signals_of_others_are_not_swallowed_and_a_thread_that_blocks_them_is_counted(bench):
    spec = {"kind": "file.delay", "service": "victim", "path": "/srv/x", "operation": "read", "delay": "100ms"}
    trial = bench.attempt(spec, **waits("urgent /srv/x"), under=[go(lines=5)])
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
    pid = "pid=$(pgrep -f '[l]ater /srv/go')"
    stop = f"{pid}; kill -STOP $pid; {until('grep -qi ^State:.t /proc/$pid/status')}"
    go_on = f"touch /srv/go; sleep 0.5; cat /srv/said; {pid}; grep -i ^State:.t /proc/$pid/status; kill -CONT $pid"
    trial = bench.attempt(spec, **waits("timed fsync /srv/x 3"), under=[stop, go_on, GO])
    trial.proven()
    assert trial.said[1].lower().split()[:2] == ["state:", "t"], "it said nothing, and is stopped still"
    as_asked(trial.said[2], 50)


def test_a_tracer_that_is_killed_holds_nobody(bench):
    spec = {"kind": "syscall.delay", "service": "victim", "call": "fsync", "delay": "30s"}
    words = "by=service what=victim call=fsync rate=1000000 every=0 limit=0"
    held = until(f"stormcell-guest delay show fault {words} | grep -q '\"holding\": 1'")
    kill = f"touch /srv/go; {held}; kill -9 $(cat /sys/fs/cgroup/stormcell/faults/fault/cgroup.procs)"
    trial = bench.attempt(spec, **waits("timed fsync /srv/x 1"), under=[kill, GO])
    assert times(trial.said[1])[0] < 25_000
    assert trial.receipt.in_force is False
    assert trial.receipt.clean


def test_the_undo_lets_go_at_once_and_can_be_done_twice(bench):
    words = "by=service what=victim call=fsync rate=1000000 every=0 limit=0"
    bench.put("/srv/victim.sh", victim("timed fsync /srv/x 1"))
    bench.run(f"rm -f /srv/go* /srv/said; sh /srv/victim.sh & {until(HERE)}")
    bench.run(f"stormcell-guest delay apply a.b 60 0 {words}; touch /srv/go; sleep 0.5; test ! -s /srv/said")
    bench.run(f"stormcell-guest delay clear a.b; stormcell-guest delay clear a.b; {until('[ -s /srv/said ]')}")
    assert times(bench.run("cat /srv/said"))[0] < 50_000
    assert (
        bench.run("ls -A /sys/fs/bpf/stormcell; ls -d /sys/fs/cgroup/stormcell/faults 2>&1; true").count("No such") == 1
    )


def test_in_force_but_nothing_was_called(bench):
    spec = {"kind": "syscall.delay", "service": "victim", "call": "fsync", "delay": "50ms", "path": "/srv/y"}
    trial = bench.attempt(spec, **waits("timed fsync /srv/x 3"), under=[GO])
    assert (trial.receipt.in_force, trial.receipt.clean, trial.acted) == (True, True, 0)
    refused = bench.attempt({**spec, "service": "nosuch"})
    assert "No such file or directory" in refused.stop
    assert refused.receipt.clean
