"""System calls of what is started under the fault fail with any errno; nobody else's do, and none ever hangs."""

import json
import random

import pytest

from tests.guest.faults.fault_trial import until

UNDER = "stormcell-guest seccomp run fault"
ASK = (
    "import collections, ctypes, sys\nlibc = ctypes.CDLL(None, use_errno=True)\nsaid = []\n"
    "for _ in range(int(sys.argv[1])):\n"
    "  said.append(ctypes.get_errno() if libc.syscall(ctypes.c_long(110)) == -1 else 0)\n"
    "print(*said)"
)
"""getppid(2), which never fails, so many times: the errnos."""
LIVE = (
    "#!/bin/sh\nid -u > /run/who\ngrep -E 'NoNewPrivs|Seccomp:' /proc/$$/status >> /run/who\n"
    "while sleep 0.05; do sync -d /srv/live.sh 2>> /run/said && echo fine >> /run/said; done\n"
)


@pytest.fixture(scope="module", autouse=True)
def _prepared(bench):
    bench.put_tools()
    bench.put("/srv/ask.py", ASK)
    bench.put("/srv/live.sh", LIVE)
    spec = [{"name": "live", "command": ["/bin/sh", "/srv/live.sh"], "user": "nobody"}]
    bench.put("/etc/stormcell/services.json", json.dumps(spec))
    bench.run("touch /run/who /run/said; chmod 666 /run/who /run/said; stormcell-guest service load")


def fails(call, **rest):
    return {"kind": "syscall.seccomp", "call": call, "errno": "EIO", **rest}


def answers(trial):
    return json.loads(trial.receipt.readings["after"].outputs["seccomp"].out)["answers"]


def hits(trial):
    return {(hit["comm"], hit["call"], hit["errno"]): hit["count"] for hit in answers(trial)["hits"]}


def nothing_left(bench):
    """Who lived under the filter and ends with the run may still be about to, and so the one that answers it."""
    left = "cat /sys/fs/cgroup/stormcell/helpers/cgroup.procs; grep -ls '^Seccomp:.*[12]$' /proc/[0-9]*/status"
    bench.run(until(f'[ -z "$({left})" ]'))
    assert bench.run("ls -A /run/stormcell/seccomp /run/stormcell/marks").split() == [
        "/run/stormcell/marks:", "/run/stormcell/seccomp:"]  # fmt: skip


def lives(filter_):
    """Shell text: what the service says of itself and of its calls, once it lives with this filter."""
    begun = until(f"grep -q '^Seccomp:.*{filter_}' /run/who")
    anew = f": > /run/said; {until('[ $(wc -l < /run/said) -ge 2 ]')}"
    return f"{begun}; {anew}; {anew}; sort -u /run/said; cat /run/who"  # the first may be what it was about to say


def test_a_service_lives_under_it_when_it_was_started_anew_as_well(bench):
    again = f": > /run/who; echo 1 > /sys/fs/cgroup/services/live/cgroup.kill; {lives(2)}"
    trial = bench.attempt(fails("fsync", service="live"), under=[lives(2), again, "sync -d /srv/live.sh && echo fine"])
    trial.proven()
    for said in trial.said[:2]:
        assert "error syncing '/srv/live.sh': Input/output error" in said
        assert "fine" not in said
        assert said.split()[-5:] == ["65534", "NoNewPrivs:", "0", "Seccomp:", "2"]
    assert trial.said[2] == "fine\n", "a bystander"
    assert set(hits(trial)) == {("sync", "fdatasync", "EIO")}
    assert answers(trial)["joined"] == 2
    assert bench.run(lives(0)).split() == ["fine", "65534", "NoNewPrivs:", "0", "Seccomp:", "0"]
    nothing_left(bench)


def test_a_service_that_starts_under_it(bench):
    look = f": > /run/said; {until('[ -s /run/said ]')}; sort -u /run/who; stormcell-guest service status"
    spec = fails("exec", service="live", from_start=True, errno="ENOMEM", limit=2)
    trial = bench.attempt(spec, under=[look])
    trial.proven()
    assert hits(trial) == {("sh", "execve", "ENOMEM"): 2}, "its own program was executed; the first two of it were not"
    assert json.loads(trial.said[0].splitlines()[-1])["services"]["live"]["state"] in ("running", "waiting", "starting")
    nothing_left(bench)


def test_every_variant_is_met_but_those_that_no_filter_sees(bench):
    bench.run("echo hi > /srv/x")
    tool = "python3 /root/syscall_tool.py"
    each = "; ".join(f"{tool} variant {name} /srv/x" for name in ("openat2", "creat", "open32", "io_uring"))
    spec = fails(["openat2", "creat"], exact=True, errno="ENOSPC")
    trial = bench.attempt(spec, under=[f"{UNDER} sh -c '{each}'", f"{tool} variants /srv/x"])
    trial.proven()
    assert trial.said[0].split() == ["openat2", "ENOSPC", "creat", "ENOSPC", "open32", "OK", "io_uring", "OK"]
    assert set(trial.said[1].split()[1::2]) == {"OK"}, "a bystander"
    assert hits(trial) == {("python3", "openat2", "ENOSPC"): 1, ("python3", "creat", "ENOSPC"): 1}


def test_a_seed_draws_the_calls_and_amounts_change_in_place(bench):
    change = "stormcell-guest seccomp change fault errno=EPERM delay=0 rate=1000000 every=3 limit=0"
    ask = f"{UNDER} python3 /srv/ask.py"
    trial = bench.attempt(fails("getppid", rate="30%", seed=11), under=[f"{ask} 200", change, f"{ask} 6"])
    draw = random.Random(11)
    assert trial.said[0].split() == ["5" if draw.random() < 0.3 else "0" for _ in range(200)]
    assert trial.said[2].split().count("1") == 2
    assert trial.acted == trial.said[0].split().count("5") + 2
    assert trial.receipt.in_force is False, "it is no longer what was asked for"
    assert trial.receipt.clean


def test_threads_and_children_are_counted_as_the_processes_that_they_are(bench):
    text = (
        "import os, threading\nt = threading.Thread(target=os.getppid)\nt.start(); t.join()\n"
        "pid = os.fork()\nos.getppid()\npid and os.wait() and print(os.getpid(), pid)"
    )
    bench.put("/srv/family.py", text)
    trial = bench.attempt(fails("getppid", every=1), under=[f"{UNDER} python3 /srv/family.py"])
    trial.proven()
    parent, child = map(int, trial.said[0].split())
    assert {hit["pid"]: hit["count"] for hit in answers(trial)["hits"]} == {parent: 2, child: 1}


def test_a_call_takes_longer_and_one_that_is_killed_meanwhile_is_not_counted(bench):
    timed = "time.monotonic(); os.getppid(); print(time.monotonic() - t >= 0.3)"
    slow = f"{UNDER} python3 -c 'import os, time; t = {timed}'"
    longer = "stormcell-guest seccomp change fault errno= delay=3600 rate=1000000 every=0 limit=0"
    killed = f"timeout -s KILL 3 {UNDER} python3 -c 'import os; os.getppid(); print(1)'"
    spec = {"kind": "syscall.seccomp", "call": "getppid", "delay": "300ms"}
    trial = bench.attempt(spec, under=[slow, f"{longer}; {killed}"])
    assert [said.strip() for said in trial.said] == ["True", "Killed"]
    assert (trial.acted, trial.receipt.clean) == (1, True)
    assert hits(trial) == {("python3", "getppid", ""): 1}
    nothing_left(bench)


def test_who_outlives_the_undo_goes_on_as_if_nothing_were(bench):
    load = f"{until('[ -e /run/stormcell/seccomp/fault ]')}; {UNDER} sh -c "
    asks = "while :; do python3 /srv/ask.py 1 >> /run/asked; sleep 0.3; done"
    met = until("grep -qs {} /run/asked") + "; sort -u /run/asked"
    undo = "stormcell-guest seccomp unmake fault; cat /sys/fs/cgroup/stormcell/helpers/cgroup.procs"
    trial = bench.attempt(
        fails("getppid"), loads=[f"{load} '{asks}'"], under=[met.format(5), f"{undo}; {met.format(0)}"]
    )
    assert trial.said[0].split() == ["5"]
    assert len(trial.said[1].split()) == 7, "one process answers for the load"
    assert trial.said[1].split()[-2:] == ["0", "5"]
    assert trial.receipt.clean, "undone twice"
    nothing_left(bench)


def test_nothing_hangs_when_the_process_that_answers_is_killed(bench):
    kill = "kill -9 $(cat /sys/fs/cgroup/stormcell/faults/fault/cgroup.procs)"
    trial = bench.attempt(
        fails("getpriority"),
        under=[
            f"{UNDER} {UNDER} true; stormcell-guest seccomp run other true",
            f"{UNDER} sh -c '{kill}; nice -n 0 true'",
        ],
    )
    assert "a process can live under one" in trial.said[0]
    assert "there is no fault 'other' to live under" in trial.said[0]
    assert "Function not implemented" in trial.said[1]
    assert trial.receipt.in_force is False
    assert "ENOSYS" in str(trial.receipt.notes)
    assert trial.receipt.clean
    nothing_left(bench)


def test_a_service_that_is_not_there_is_said_and_nothing_is_left(bench):
    trial = bench.attempt(fails("fsync", service="nosuch"))
    assert "there is no service 'nosuch'" in trial.stop
    nothing_left(bench)
