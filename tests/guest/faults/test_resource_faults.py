"""Memory, CPU, disks, the clock, processes: an observer beside the fault sees what its receipt says."""

import json
import time

import pytest

from stormcell.spec.errors import SpecError
from tests.guest.faults.resource_loads import GROUP, joined
from tests.guest.faults.resource_watch import percent, share_between

JOIN = (
    f"mkdir -p {GROUP}; echo '+memory +cpu' > /sys/fs/cgroup/services/cgroup.subtree_control; "
    f"echo $$ > {GROUP}/cgroup.procs; "
)


def python(text: str) -> str:
    return f"{JOIN} exec python3 -c '{text}'"


EATER = python("b=[]\nimport time\nwhile 1: b.append(bytearray(1<<20)); time.sleep(0.02)")
SPINNER = python("while 1: pass")


def test_memory_limit_kills_in_the_group_and_nowhere_else(bench):
    outside = "python3 -c 'b=bytearray(60<<20); print(len(b)>>20)'"
    trial = bench.attempt(
        {"kind": "memory.limit", "service": "victim", "max": "32MiB"},
        loads=[EATER],
        ready=joined(),
        under=[f"while {joined()}; do sleep 0.1; done", outside],
    )
    trial.proven()
    assert trial.said[1] == "60\n"
    assert any(f"oom_memcg={GROUP.removeprefix('/sys/fs/cgroup')}" in note for note in trial.receipt.notes)
    exited = [event for event in trial.events if event["event"] == "load" and event["state"] == "exited"]
    assert exited, "the eater is the victim"
    assert bench.run(f"cat {GROUP}/memory.max") == "max\n"


def test_cpu_limit_throttles_to_the_share(bench):
    trial = bench.attempt(
        {"kind": "cpu.limit", "service": "victim", "percent": "20%"},
        loads=[SPINNER],
        ready=joined(),
        under=[share_between(10, 30, seconds=2)],
    )
    trial.proven()
    assert 10 <= percent(trial.said[0]) <= 30
    assert trial.acted >= 10
    assert bench.run(f"cat {GROUP}/cpu.max") == "max 100000\n"


def test_a_full_disk_refuses_the_user_and_not_root(bench):
    as_nobody = "su nobody -s /bin/sh -c 'head -c 300000 /dev/zero > /tmp/nobody'"
    as_root = "head -c 300000 /dev/zero > /tmp/root && echo done"
    trial = bench.attempt({"kind": "disk.fill", "path": "/var/tmp"}, under=[as_nobody, as_root])
    trial.proven()
    assert "No space left on device" in trial.said[0]
    assert trial.said[1] == "done\n"
    assert trial.acted == 1
    assert bench.run(f"{as_nobody}; rm /tmp/nobody /tmp/root; ls -A /var/tmp") == ""


def test_a_full_disk_for_root_refuses_everybody(bench):
    trial = bench.attempt(
        {"kind": "disk.fill", "path": "/var/tmp", "user": "root"}, under=["head -c 300000 /dev/zero > /tmp/root"]
    )
    trial.proven()
    assert "No space left on device" in trial.said[0]


def test_a_nearly_full_disk_keeps_what_was_asked_for(bench):
    write = "su nobody -s /bin/sh -c 'head -c {} /dev/zero > /tmp/nobody'; rm -f /tmp/nobody"
    spec = {"kind": "disk.fill", "path": "/var/tmp", "leave": "8MiB"}
    trial = bench.attempt(spec, under=[write.format(6_000_000), write.format(12_000_000)])
    trial.proven()
    assert trial.said[0] == ""
    assert "No space left on device" in trial.said[1]


@pytest.mark.parametrize("mount", ["", "-t tmpfs -o size=8m,nr_inodes=400 small"])
def test_without_inodes_no_file_can_be_made_but_written(bench, mount):
    folder = "/mnt/small" if mount else "/mnt/disk"
    make = f"mount {mount} {folder}" if mount else (
        f"truncate -s 8M /var/small.img; mkfs.ext4 -q -N 300 /var/small.img; mount -o loop /var/small.img {folder}"
    )  # fmt: skip
    bench.run(f"modprobe loop; mkdir -p {folder}; {make}; echo old > {folder}/old")
    trial = bench.attempt(
        {"kind": "disk.inodes", "path": folder},
        under=[f"touch {folder}/new", f"echo more >> {folder}/old && cat {folder}/old", f"mkdir {folder}/newdir"],
    )
    trial.proven()
    assert "No space left on device" in trial.said[0]
    assert trial.said[1] == "old\nmore\n"
    assert "No space left on device" in trial.said[2]
    assert trial.acted == 2
    assert ".stormcell" not in bench.run(f"touch {folder}/new; ls -A {folder}; umount {folder}; rm -f /var/small.img")


def test_the_clock_jumps_for_everybody_and_comes_back_with_the_time_that_passed(bench):
    before = time.time()
    trial = bench.attempt(
        {"kind": "clock.jump", "by": "-90m"}, under=["date +%s", "cut -d' ' -f1 /proc/uptime; sleep 1.5"]
    )
    trial.proven()
    assert abs(int(trial.said[0]) - (before - 5400)) < 120
    offset = float(bench.run("date +%s.%N")) - time.time()
    assert abs(offset) < 60


def test_a_killed_service_is_gone_and_its_successor_is_noted(bench):
    keeper = f"{JOIN} while :; do sleep 1000; done"
    trial = bench.attempt(
        {"kind": "process.kill", "service": "victim"},
        loads=[keeper],
        ready=f"[ $(grep -c . {GROUP}/cgroup.procs) = 2 ]",
        under=[f"cat {GROUP}/cgroup.procs"],
    )
    trial.proven()
    assert trial.said == [""]
    assert trial.acted == 2


def test_a_signal_that_is_heeded_late_or_never(bench):
    deaf = f"{JOIN} trap '' TERM; exec sleep 1000"
    trial = bench.attempt(
        {"kind": "process.kill", "service": "victim", "signal": "TERM"},
        loads=[deaf],
        ready=f"grep -qx sleep /proc/$(cat {GROUP}/cgroup.procs)/comm 2> /dev/null",
        under=[f"cat {GROUP}/cgroup.procs"],
    )
    bench.run(f"echo 1 > {GROUP}/cgroup.kill")  # it left the cgroup that the runner cleans up
    assert trial.receipt.in_force
    assert trial.acted == 0
    assert trial.said != [""]
    assert any("which is still there" in note for note in trial.receipt.notes)


def test_kill_9_of_init_is_ignored_by_the_kernel(bench):
    """Everybody's tool reports this as success; ours refuses to try."""
    with pytest.raises(SpecError, match="process 1 is the guest's init"):
        bench.attempt({"kind": "process.kill", "pid": 1})
    assert bench.run("kill -9 1; echo exit $?; cat /proc/1/comm").startswith("exit 0\n")


def test_by_name_neither_the_runner_nor_the_agent_is_hit(bench):
    trial = bench.attempt(
        {"kind": "process.kill", "name": "python3"},
        loads=['exec python3 -c \'open("/run/up", "w"); import time; time.sleep(999)\''],
        ready="rm /run/up 2> /dev/null",
    )
    trial.proven()
    shown = json.loads(trial.receipt.readings["after"].outputs["victims"].out)
    assert [victim["comm"] for victim in shown["sent"]] == ["python3"], shown
    assert trial.acted == 1
