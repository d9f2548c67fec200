"""CPU: an observer beside the fault sees what its receipt says, and a bystander is left alone."""

import asyncio
import re
import shlex
from pathlib import Path

import pytest

from stormcell import faults
from stormcell.sandbox.templates import resolve
from tests.guest.faults.fault_trial import Bench
from tests.guest.faults.resource_loads import (
    GROUP,
    KEEP,
    SPINNER,
    TICKER,
    join,
    joined,
    named,
    named_spinner,
    python,
    there,
    when_there,
)
from tests.guest.faults.resource_watch import OF_GROUP, goes_on, in_time, of_process, percent, share_between

TARGETS = "/sys/fs/cgroup/stormcell-targets"
SERVER = named(
    "server",
    'import os, socket\\nos.setuid(65534)\\ns = socket.create_server(("127.0.0.1", 7001))\\nwhile 1: pass',
).replace("\\n", "\n")


def nothing_of_ours(bench) -> None:
    assert bench.run(f"ls -d {TARGETS} /sys/fs/cgroup/stormcell/faults 2>/dev/null; pgrep -x 'sc-.*' || true") == ""
    marks = "ls -A /run/stormcell/marks 2>/dev/null || true"
    assert bench.run(f"find /sys/fs/cgroup/services -name 'stormcell-*'; {marks}") == ""


@pytest.mark.parametrize("target", [{"name": "server"}, {"user": "nobody"}, {"port": 7001}])
def test_a_limit_finds_its_target_in_every_way_and_leaves_the_neighbours_alone(bench, target):
    where = "for n in server neighbour; do cat /proc/$(pgrep -x $n)/cgroup; done"
    trial = bench.attempt(
        {"kind": "cpu.limit", "percent": "20%", **target},
        loads=[f"{join()} {SERVER}", TICKER],
        ready=f"ss -Hltn 'sport = :7001' | grep -q . && {there('neighbour')}",
        under=[where, share_between(12, 28, of_process("server")), goes_on("neighbour")],
    )
    trial.proven()
    assert 12 <= percent(trial.said[1]) <= 28
    assert int(trial.said[2]) > 5
    groups = trial.said[0].split()
    assert groups[0] == "0::/stormcell-targets/fault"
    assert groups[1].startswith("0::/stormcell/exec/")
    assert any("moved to /sys/fs/cgroup/stormcell-targets/fault" in note for note in trial.receipt.notes)
    nothing_of_ours(bench)


def test_who_was_moved_goes_back_with_its_children_and_not_who_took_its_pid(bench):
    """By pid and start time: the survivors and what they started return to the group that they came from."""
    forks = (
        "import os, time, signal\nsignal.signal(17, signal.SIG_IGN)\n"
        "while 1:\n  p = os.fork()\n  if not p: time.sleep(0.3); os._exit(0)\n  time.sleep(0.2)"
    )
    where = "cat $(pgrep -x forker | sed 's,.*,/proc/&/cgroup,') 2> /dev/null | sort -u"  # a child may end meanwhile
    trial = bench.attempt(
        {"kind": "cpu.limit", "percent": "50%", "name": "forker"},
        loads=[python(f'open("/proc/self/comm", "w").write("forker")\n{forks}'), "sleep 3600"],
        ready=there("forker"),
        under=[f"sleep 0.5; {where}"],
    )
    assert trial.receipt.in_force
    assert trial.receipt.clean
    assert trial.said == ["0::/stormcell-targets/fault\n"]
    assert trial.events[-1]["event"] == "end"
    nothing_of_ours(bench)


def test_a_percentage_is_of_the_quota_that_is_there(bench):
    bench.run(f"mkdir -p {GROUP}; echo '50000 100000' > {GROUP}/cpu.max")
    trial = bench.attempt(
        {"kind": "cpu.limit", "service": "victim", "percent": "40%"},
        loads=[SPINNER],
        ready=joined(),
        under=[share_between(14, 26)],
    )
    trial.proven()
    assert 14 <= percent(trial.said[0]) <= 26
    assert any("40% of the quota that was there (50% of a CPU): 20% of a CPU" in note for note in trial.receipt.notes)
    assert bench.run(f"cat {GROUP}/cpu.max; echo max > {GROUP}/cpu.max") == "50000 100000\n"


def test_a_limit_is_changed_while_it_is_in_force(bench):
    bench.run(f"mkdir -p {GROUP}; echo '80000 100000' > {GROUP}/cpu.max")
    first = faults.parse({"kind": "cpu.limit", "service": "victim", "percent": "50%"}).named("ramp", 1)
    to = first.change(faults.parse({"kind": "cpu.limit", "service": "victim", "percent": "25%", "period": "50ms"}))
    assert to is not None
    said = []
    for command in (*first.plan().apply, *to, *first.plan().undo, *first.plan().undo):
        bench.run(shlex.join(command.argv))
        said.append(bench.run(f"cat {GROUP}/cpu.max").strip())
    assert said == ["40000 100000", "10000 50000", "80000 100000", "80000 100000"]
    bench.run(f"echo max > {GROUP}/cpu.max")
    nothing_of_ours(bench)


def test_a_slow_cpu_is_slow_without_long_pauses(bench):
    text = (
        f"{KEEP}import time\nt = time.monotonic()\ng = []\nwhile 1:\n  n = time.monotonic()\n"
        "  if n - t > 0.001: g.append(n - t)\n"
        '  t = n\n  if len(g) == 100: keep("/run/gaps", sorted(g)[50]); g = []'
    )
    trial = bench.attempt(
        {"kind": "cpu.slow", "service": "victim", "speed": "40%"},
        loads=[python(text)],
        ready=joined(),
        under=["rm -f /run/gaps", share_between(25, 55), when_there("/run/gaps")],
    )
    trial.proven()
    assert 25 <= percent(trial.said[1]) <= 55
    assert float(trial.said[2]) < 0.04, "a quota of 100 ms would pause for 60 ms"


@pytest.mark.parametrize(("quota", "asked", "wanted"), [("50000 100000", "60%", 0.3), ("max 100000", "40%", 0.4)])
def test_a_load_uses_what_was_asked_for_in_the_group_of_its_target(bench, quota, asked, wanted):
    bench.run(f"mkdir -p {GROUP}; echo '{quota}' > {GROUP}/cpu.max")
    low, high = round(100 * (0.9 * wanted - 0.02)), round(100 * (1.1 * wanted + 0.02))
    spec = {"kind": "cpu.load", "service": "victim", "percent": asked, "workers": 2}
    under = [share_between(low, high), "cat $(pgrep sc-burn | sed 's,.*,/proc/&/cgroup,') | sort -u"]
    trial = in_time(lambda: bench.attempt(spec, under=under))
    trial.proven()
    assert low <= percent(trial.said[0]) <= high
    assert trial.said[1] == "0::/services/victim/stormcell-fault\n"
    bench.run(f"echo max > {GROUP}/cpu.max")
    nothing_of_ours(bench)


def test_a_load_without_a_target_is_a_group_of_its_own(bench):
    bench.run(f"mkdir -p {GROUP}")
    spec = {"kind": "cpu.load", "percent": "50%"}
    used = [f"echo {OF_GROUP}; sleep 1.5; echo {OF_GROUP}", "cat /proc/$(pgrep sc-burn)/cgroup"]
    trial = in_time(lambda: bench.attempt(spec, under=used))
    trial.proven()
    first, last = map(int, trial.said[0].split())
    assert last - first < 30_000, "the service is a bystander"
    assert trial.said[1] == "0::/stormcell-targets/fault\n"
    nothing_of_ours(bench)


def test_stolen_time_is_waited_for(bench):
    trial = bench.attempt(
        {"kind": "cpu.steal", "name": "worker", "percent": "60%"},
        loads=[named_spinner("worker")],
        ready=there("worker"),
        under=[share_between(25, 45, of_process("worker"), 2)],
    )
    trial.proven()
    assert 25 <= percent(trial.said[0]) <= 45
    assert trial.acted > 400
    nothing_of_ours(bench)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"kind": "cpu.limit", "name": "nosuch", "percent": "10%"}, "there is no process of name 'nosuch'"),
        ({"kind": "cpu.slow", "service": "nosuch", "speed": "10%"}, "there is no cgroup"),
        ({"kind": "cpu.load", "service": "nosuch", "percent": "10%"}, "there is no cgroup"),
        ({"kind": "cpu.load", "port": 4711, "percent": "10%"}, "there is no process of port"),
        ({"kind": "cpu.steal", "name": "nosuch", "percent": "10%"}, "there is no process of name"),
        ({"kind": "cpu.online", "leave": 1}, "the guest has one CPU online"),
        ({"kind": "cpu.online", "service": "victim", "leave": 1}, "it may use 1 CPUs"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(bench, spec, why):
    bench.run(f"mkdir -p {GROUP}")
    trial = bench.attempt(spec, under=["true"])
    assert trial.receipt.apply_ok is not True
    assert why in trial.stop
    nothing_of_ours(bench)


@pytest.fixture(scope="module")
def two_cpus(own_home):
    made = Bench(asyncio.run(resolve(str(Path(__file__).parent / "two_cpus.yaml"), None)))
    yield made
    made.close()


def test_the_guest_has_fewer_cpus(two_cpus):
    trial = two_cpus.attempt({"kind": "cpu.online", "leave": 1}, under=["nproc; grep -c ^processor /proc/cpuinfo"])
    trial.proven()
    assert trial.said == ["1\n1\n"]
    assert trial.acted == 1
    assert two_cpus.run("nproc") == "2\n"


def test_a_process_has_fewer_cpus_and_its_neighbour_has_them_all(two_cpus):
    allowed = "for n in bound free; do grep Cpus_allowed_list /proc/$(pgrep -x $n)/status; done"
    idle = "import time; time.sleep(999)"
    trial = two_cpus.attempt(
        {"kind": "cpu.online", "name": "bound", "leave": 1},
        loads=[named("bound", idle), named("free", idle)],
        ready=there("bound", "free"),
        under=[allowed],
    )
    trial.proven()
    assert trial.said[0].split()[1::2] == ["0", "0-1"]
    nothing_of_ours(two_cpus)


def test_the_set_of_cpus_of_a_busy_service_is_emptied_again(two_cpus):
    """The kernel refuses that while anybody is in the group."""
    trial = two_cpus.attempt(
        {"kind": "cpu.online", "service": "victim", "leave": 1},
        loads=[SPINNER],
        ready=joined(),
        under=[f"cat {GROUP}/cgroup.procs"],
    )
    trial.proven()
    assert two_cpus.run(f"cat {GROUP}/cpuset.cpus; cat {GROUP}/cpuset.cpus.effective") == "\n0-1\n"
    nothing_of_ours(two_cpus)


def test_stealing_takes_from_every_cpu(two_cpus):
    each = f"{join()} exec python3 -c 'import os\nos.fork()\nwhile 1: pass'"
    trial = two_cpus.attempt(
        {"kind": "cpu.steal", "service": "victim", "percent": "50%"},
        loads=[each],
        ready=f"[ $(grep -c . {GROUP}/cgroup.procs) = 2 ]",
        under=["sleep 1.5"],
    )
    assert trial.receipt.in_force
    assert trial.acted
    assert trial.receipt.clean
    assert len(re.findall("sc-steal", trial.receipt.readings["during"].outputs["burn"].out)) == 2
