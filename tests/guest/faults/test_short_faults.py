"""Short reads and writes: the kernel does less and says so; a careful program notices nothing, another one does."""

import json

import pytest

from tests.guest.faults.fault_trial import until
from tests.guest.faults.test_delay_faults import GO, HERE, TOOL, _prepared, victim, waits

__all__ = ["_prepared"]


def short(path="/srv/x", **rest):
    return {"kind": "file.short", "service": "victim", "path": path, **rest}


def portions(text):
    """What `portions` wrote, read, and left."""
    wrote, _, rest = text.removeprefix("wrote ").partition(" read ")
    got, _, size = rest.partition(" size ")
    return [int(n) for n in wrote.split()], [int(n) for n in got.split()], int(size)


def test_writes_and_reads_do_the_share_and_nobody_elses(bench):
    bystander = f"{TOOL} portions /srv/x2 3; {TOOL} portions /srv/x 3"
    trial = bench.attempt(short(share="30%", operation="write"), **waits("portions /srv/x 6"), under=[GO, bystander])
    trial.proven()
    assert portions(trial.said[0]) == ([3] * 6, [10, 8, 0, 0, 0, 0], 18)
    assert all(portions(line) == ([10] * 3, [10] * 3, 30) for line in trial.said[1].splitlines())
    assert trial.acted == 6
    assert bench.run(f"{TOOL} portions /srv/x 2; ls -d /sys/fs/cgroup/stormcell/faults 2>&1; true").startswith(
        "wrote 10"
    )


def test_every_nth_read_and_at_most_so_many(bench):
    spec = short("/srv", operation="read", share="1%", every=2, limit=2)
    trial = bench.attempt(spec, **waits("portions /srv/x 6"), under=[GO])
    trial.proven()
    assert portions(trial.said[0]) == ([10] * 6, [10, 1, 10, 1, 10, 10], 60)
    assert trial.acted == 2


def test_a_careful_program_with_threads_loses_nothing(bench):
    trial = bench.attempt(short("/srv/dir", rate="60%"), **waits("whole /srv/dir/w 3"), under=[GO])
    trial.proven()
    assert trial.said[0] == "good 9 of 9\n"
    told = json.loads(trial.receipt.readings["after"].outputs["short"].out)["tracer"]
    assert {hit["call"] for hit in told["hits"]} == {"read", "write"}


@pytest.mark.parametrize("killed", [False, True])
def test_changed_in_place_and_gone_with_its_tracer(bench, killed):
    change = "stormcell-guest shorten change fault share=900000 rate=1000000 every=0 limit=0"
    kill = "kill -9 $(cat /sys/fs/cgroup/stormcell/faults/fault/cgroup.procs); sleep 0.2"
    trial = bench.attempt(short(), **waits("portions /srv/x 2"), under=[kill if killed else change, GO])
    assert trial.receipt.in_force is False
    assert trial.receipt.clean
    assert portions(trial.said[1])[0] == ([10] * 2 if killed else [9] * 2)


def test_in_force_but_nothing_was_read(bench):
    trial = bench.attempt(short("/srv/y"), **waits("portions /srv/x 2"), under=[GO])
    assert (trial.receipt.in_force, trial.receipt.clean, trial.acted) == (True, True, 0)
    for other in ({"service": "nosuch"}, {"path": "/nosuch"}):
        refused = bench.attempt({**short(), **other})
        assert "No such file or directory" in refused.stop
        assert refused.receipt.clean


def test_a_thread_that_another_has_is_refused(bench):
    words = "by=service what=victim call=fsync rate=1000000 every=0 limit=0"
    delay = f"stormcell-guest delay apply other 0.1 0 {words}"
    bench.put("/srv/victim.sh", victim("portions /srv/x 2"))
    bench.run(f"rm -f /srv/go* /srv/said; sh /srv/victim.sh & {until(HERE)}; {delay}")
    trial = bench.attempt(short())
    bench.run("touch /srv/go; stormcell-guest delay clear other")
    assert "has another tracer" in trial.stop
    assert trial.receipt.clean
