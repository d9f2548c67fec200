"""Memory: an observer beside the fault sees what its receipt says, and a bystander is left alone."""

import re
from statistics import median

import pytest

from tests.guest.faults.resource_loads import GROUP, python, sized, there
from tests.guest.faults.test_cpu_faults import nothing_of_ours

APP = python(sized("app", 24))
ALIVE = "pgrep -x app > /dev/null && echo alive || echo dead"
STAT = f"grep -wE 'anon|file|shmem|unevictable' {GROUP}/memory.stat"
MIB = 1 << 20


def numbers(said: str) -> dict[str, int]:
    return {line.split()[0]: int(line.split()[1]) for line in said.splitlines()}


def test_past_high_a_process_is_slowed_and_not_killed(bench):
    # it grows under the limit alone, however long the act takes
    grows = (
        f'import time\nwhile "max" in open("{GROUP}/memory.high").read(): time.sleep(0.01)\n'
        "b = []\nwhile len(b) < 60: b.append(bytearray(1 << 20)); time.sleep(0.01)\ntime.sleep(99)"
    )
    current = (
        f"until grep -q '^high [1-9]' {GROUP}/memory.events; do sleep 0.1; done; "
        f"sleep 1; cat {GROUP}/memory.current; pgrep -x app"
    )
    trial = bench.attempt(
        {"kind": "memory.limit", "service": "victim", "high": "16MiB"},
        loads=[python(f'open("/proc/self/comm", "w").write("app")\n{grows}')],
        ready=there("app"),
        under=[current, "python3 -c 'b = bytearray(60 << 20); print(len(b) >> 20)'"],
    )
    trial.proven()
    assert int(trial.said[0].split()[0]) < 40 * MIB
    assert len(trial.said[0].split()) == 2, "it lives"
    assert trial.said[1] == "60\n", "a bystander gets what it wants"
    assert bench.run(f"cat {GROUP}/memory.high") == "max\n"


@pytest.mark.parametrize(
    ("pages", "counter"), [("anon", "anon"), ("file", "file"), ("shmem", "shmem"), ("locked", "unevictable")]
)
def test_memory_is_held_in_the_group_of_the_target_by_kind(bench, pages, counter):
    bench.run(f"mkdir -p {GROUP}")
    before = numbers(bench.run(STAT))
    where = "cat /proc/$(pgrep sc-hold)/cgroup /proc/$(pgrep sc-hold)/oom_score_adj"
    trial = bench.attempt(
        {"kind": "memory.hold", "service": "victim", "size": "20MiB", "pages": pages}, under=[STAT, where]
    )
    trial.proven()
    seen = numbers(trial.said[0])
    assert 0.9 * 20 * MIB < seen[counter] - before[counter] < 1.2 * 20 * MIB
    assert trial.said[1] == "0::/services/victim/stormcell-fault\n1000\n"
    assert trial.acted == pytest.approx(20 << 10, rel=0.15)
    assert numbers(bench.run(STAT))[counter] - before[counter] < 2 * MIB
    nothing_of_ours(bench)


def test_memory_held_without_a_target_is_taken_from_the_guest_alone(bench):
    bench.run(f"mkdir -p {GROUP}")
    available = "grep -w MemAvailable /proc/meminfo | tr -dc 0-9"
    before = int(bench.run(available))
    trial = bench.attempt(
        {"kind": "memory.hold", "size": "100MiB", "pages": "locked"}, under=[available, f"cat {GROUP}/memory.current"]
    )
    trial.proven()
    assert 85 << 10 < before - int(trial.said[0]) < 130 << 10
    assert int(trial.said[1]) < 4 * MIB, "the service is a bystander"
    assert before - int(bench.run(available)) < 30 << 10
    nothing_of_ours(bench)


def test_a_leak_grows_at_its_rate_and_stops_where_it_should(bench):
    bench.run(f"mkdir -p {GROUP}")
    current = f"$(cat {GROUP}/memory.current)"
    look = f"echo {current} $(cut -d' ' -f1 /proc/uptime)"
    before = int(bench.run(f"echo {current}"))
    trial = bench.attempt(
        {"kind": "memory.leak", "service": "victim", "by": "1MiB", "every": "100ms", "most": "25MiB"},
        loads=[f"while :; do {look}; sleep 0.1; done"],
        under=[f"until [ {current} -gt {before + int(24.5 * MIB)} ]; do sleep 0.1; done; sleep 0.5; {look}"],
    )
    trial.proven()
    (load,) = (event for event in trial.events if event["event"] == "load" and event["state"] == "stopped")
    looks = [(int(line.split()[0]) - before, float(line.split()[1])) for line in load["out"].splitlines()]
    # when it would have begun, by each look; one that finds the leak late is outvoted
    begins = [at - held / MIB / 10 for held, at in looks if 3 * MIB < held < 24 * MIB]
    assert begins
    assert median(abs(begin - median(begins)) for begin in begins) < 0.2
    assert int(trial.said[0].split()[0]) == pytest.approx(25 * MIB, rel=0.15)
    nothing_of_ours(bench)


def test_swap_comes_back_with_its_priority(bench):
    bench.run("modprobe zram; echo 64M > /sys/block/zram0/disksize; mkswap /dev/zram0; swapon -p 7 /dev/zram0")
    table = "tail -n +2 /proc/swaps | tr -s '\\t ' ' ' | cut -d' ' -f1,5; grep SwapTotal /proc/meminfo | tr -dc 0-9"
    before = bench.run(table)
    trial = bench.attempt({"kind": "memory.swap-off", "device": "/dev/zram0"}, under=[table])
    trial.proven()
    assert before.split()[:2] == ["/dev/zram0", "7"]
    assert trial.said == ["0"]
    assert trial.acted == 65532
    assert bench.run(table) == before
    bench.run("swapoff /dev/zram0; rmmod zram")


@pytest.mark.parametrize(
    ("spec", "app"),
    [
        ({"kind": "memory.oom", "service": "victim", "victim": "target"}, "dead"),
        ({"kind": "memory.oom", "service": "victim", "victim": "stressor"}, "alive"),
        ({"kind": "memory.oom", "name": "app", "victim": "target", "room": "8MiB"}, "dead"),
        ({"kind": "memory.global-oom", "name": "app", "victim": "target"}, "dead"),
        ({"kind": "memory.global-oom", "victim": "stressor"}, "alive"),
    ],
)
def test_the_kernel_kills_whom_the_fault_says(bench, spec, app):
    limits = f"cat {GROUP}/memory.max 2>/dev/null; cat /proc/$(pgrep -x bystander)/oom_score_adj"
    agent = bench.run("head -1 /sys/fs/cgroup/stormcell/agent/cgroup.procs")
    trial = bench.attempt(
        spec,
        loads=[APP, f"exec python3 -c '{sized('bystander', 30)}'"],
        ready=there("app", "bystander"),
        under=[ALIVE, "pgrep -x bystander > /dev/null && echo alive || echo dead", limits],
    )
    trial.proven()
    assert trial.said[0].strip() == app
    assert trial.said[1].strip() == "alive"
    assert trial.said[2].split()[-1] == "0", "nobody else's score is changed"
    assert trial.acted == 1
    killed = [note for note in trial.receipt.notes if note.startswith("kernel log: out of memory, killed")]
    assert len(killed) == 1
    assert ("the target" if app == "dead" else "our stressor") in killed[0]
    assert bench.run("head -1 /sys/fs/cgroup/stormcell/agent/cgroup.procs") == agent, "the agent survives"
    assert bench.run(f"cat {GROUP}/memory.max 2>/dev/null || echo max") == "max\n"
    nothing_of_ours(bench)


def test_a_file_is_read_from_the_disk_again_once_caches_are_dropped(bench):
    bench.run("dd if=/dev/zero of=/var/tmp/cached bs=1M count=12 2>/dev/null; cat /var/tmp/cached > /dev/null")
    cached = "fincore -nb -o PAGES /var/tmp/cached"
    assert int(bench.run(cached)) == 12 * 256
    trial = bench.attempt({"kind": "memory.drop-caches"}, under=[cached])
    trial.proven()
    assert int(trial.said[0]) == 0
    assert trial.acted > 10 << 10
    assert re.search(r"Cached: \d+ KiB before", "; ".join(trial.receipt.notes))
    bench.run("rm /var/tmp/cached")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"kind": "memory.limit", "name": "nosuch", "max": "64MiB"}, "there is no process of name 'nosuch'"),
        ({"kind": "memory.hold", "service": "nosuch", "size": "4MiB"}, "there is no cgroup"),
        ({"kind": "memory.leak", "name": "nosuch", "by": "1MiB", "most": "2MiB"}, "there is no process of name"),
        ({"kind": "memory.swap-off"}, "there is no swap (in use: none)"),
        ({"kind": "memory.swap-off", "device": "/dev/sdb"}, "there is no swap on /dev/sdb (in use: none)"),
        ({"kind": "memory.oom", "service": "empty"}, "there is no process of service 'empty' to be the victim"),
        ({"kind": "memory.global-oom", "name": "nosuch"}, "there is no process of name 'nosuch' to be the victim"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(bench, spec, why):
    bench.run("mkdir -p /sys/fs/cgroup/services/empty")
    trial = bench.attempt(spec, under=["true"])
    assert trial.receipt.apply_ok is not True
    assert why in trial.stop
    nothing_of_ours(bench)
    bench.run("rmdir /sys/fs/cgroup/services/empty")


def test_a_holder_ends_by_itself_when_its_mark_is_gone_and_an_act_killed_half_way_is_undone(bench):
    bench.run(f"mkdir -p {GROUP}")
    bench.run("stormcell-guest hold hold lost none '' 4194304 anon /var/tmp; pgrep -x sc-hold")
    bench.run("rm /run/stormcell/marks/lost; while pgrep -x sc-hold; do sleep 0.1; done")
    bench.run("rmdir /sys/fs/cgroup/stormcell/faults/lost /sys/fs/cgroup/stormcell/faults")
    bench.run(
        "setsid stormcell-guest hold hold half service victim 200000000 anon /var/tmp & "
        "while ! pgrep -x sc-hold > /dev/null; do sleep 0.01; done; kill -9 $!; wait $! 2> /dev/null; true"
    )
    bench.run("stormcell-guest hold stop half; stormcell-guest hold stop half")
    nothing_of_ours(bench)
