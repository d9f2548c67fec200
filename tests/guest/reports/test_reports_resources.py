"""CPU, memory and process faults that were not what they were said to be: reports 16, 18, 35, 46, 48 and 60.

16: https://github.com/chaosblade-io/chaosblade/issues/1223, 18: https://github.com/chaos-mesh/chaos-mesh/issues/2652,
35: https://github.com/ColinIanKing/stress-ng/issues/177, 46: https://github.com/chaosblade-io/chaosblade/issues/881,
48: https://github.com/chaosblade-io/chaosblade/issues/152, 60: https://github.com/kubernetes/kubernetes/issues/56451
"""

import json
import re

import pytest

from stormcell.engine.api import run
from stormcell.engine.folder import read_receipts
from stormcell.spec.errors import SpecError
from tests.guest.faults.resource_loads import GROUP, SIZED, SPINNER, join, joined, named, sized, there
from tests.guest.faults.resource_watch import in_time, percent, share_between

BURN = "while :; do :; done"
GONE = "while pgrep -x {} > /dev/null; do sleep 0.1; done"


def custom(apply, shows, counter, undo="true"):
    return {"kind": "custom.commands", "apply": apply, "shows": shows, "counter": counter, "undo": undo}


def detached(text: str, pid: str, group: str = "") -> str:
    """Shell text that starts `text` and writes its pid to a file."""
    join = f"echo $$ > {group}/cgroup.procs; " if group else ""
    return f"setsid sh -c '{join}echo $$ > {pid}; {text}' > /dev/null 2>&1 < /dev/null & "


def kill(pid: str) -> str:
    return f"kill -9 $(cat {pid}) 2> /dev/null; rm -f {pid}; true"


def near(low: float, high: float) -> str:
    """Shell text that succeeds when the group's CPU usage lies between these shares."""
    used = f"$(grep usage_usec {GROUP}/cpu.stat | tr -dc 0-9)"
    test = f"b - a > {low} * 1000000 && b - a < {high} * 1000000"
    return f"a={used}; sleep 1; b={used}; awk -v a=$a -v b=$b 'BEGIN {{exit !({test})}}'"


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_16_a_percentage_is_of_the_quota_and_not_of_the_machine(bench, way):
    bench.run(f"mkdir -p {GROUP}; echo '50000 100000' > {GROUP}/cpu.max")
    if way == "naive":  # half of the machine's one CPU is all that the group may use
        half = (
            "import time\nbegan = time.monotonic()\nwhile 1:\n"
            "  if time.process_time() < 0.5 * (time.monotonic() - began): continue\n  time.sleep(0.01)\n"
        )
        bench.put("/root/half.py", half)
        spec = custom(
            detached("exec python3 /root/half.py", "/run/half", GROUP) + " sleep 0.5",
            near(0.225, 0.275),
            f"grep usage_usec {GROUP}/cpu.stat | tr -dc 0-9",
            kill("/run/half"),
        )
        trial = bench.attempt(spec, under=[share_between(30, 70, seconds=1)])
        assert trial.receipt.in_force is False, "void: it is not 50% of what the group may use"
        assert percent(trial.said[0]) >= 30
    else:
        spec = {"kind": "cpu.load", "service": "victim", "percent": "50%"}
        trial = in_time(lambda: bench.attempt(spec, under=[share_between(22, 28, seconds=2)]))
        trial.proven()
        assert 22 <= percent(trial.said[0]) <= 28
        asked, burnt = map(float, re.findall(r"([\d.]+) s", trial.receipt.notes[0])[:2])
        assert burnt == pytest.approx(asked, rel=0.3)
        bench.run(f"echo max > {GROUP}/cpu.max")
        limit = {"kind": "cpu.limit", "service": "victim", "percent": "50%"}
        looks = [share_between(44, 56, seconds=2)]
        limited = bench.attempt(limit, loads=[SPINNER], ready=joined(), under=looks)
        limited.proven()
        assert 44 <= percent(limited.said[0]) <= 56
        throttled, periods = map(int, re.findall(r"throttled in (\d+) of (\d+)", "".join(limited.receipt.notes))[0])
        assert throttled >= 0.4 * periods, "nearly every period on a machine that is not shared"
    bench.run(f"echo max > {GROUP}/cpu.max")


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_18_a_stressor_outside_of_the_targets_group_is_no_act(bench, way):
    bench.run(f"mkdir -p {GROUP}")
    current = f"cat {GROUP}/memory.current"
    before = int(bench.run(current))
    if way == "naive":
        bench.put("/root/eat.py", SIZED.format(40))
        inside = "grep -q ^0::/services/victim /proc/$(cat /run/eater)/cgroup"
        spec = custom(
            detached("exec python3 /root/eat.py", "/run/eater") + " sleep 1", inside, current, kill("/run/eater")
        )
        trial = bench.attempt(spec, under=[current])
        assert trial.receipt.in_force is False, "void: the stressor is not in the target's cgroup"
        assert int(trial.said[0]) - before < 1 << 20
        assert trial.acted == 0
    else:
        spec = {"kind": "memory.hold", "service": "victim", "size": "40MiB"}
        trial = bench.attempt(spec, under=[current, "cat /proc/$(pgrep -x sc-hold)/cgroup"])
        trial.proven()
        assert trial.said[1].startswith("0::/services/victim")
        assert int(trial.said[0]) - before >= 0.9 * (40 << 20)


@pytest.mark.parametrize("way", ["naive", "stressor", "ours"])
def test_35_who_is_killed_is_said_before_and_compared_with_the_kernel_log(bench, way):
    bench.run(f"mkdir -p {GROUP}; echo 96M > {GROUP}/memory.max")
    app = f"{join()} exec python3 -c '{sized('app', 60)}'"
    alive = "pgrep -x app > /dev/null && echo alive || echo dead"
    if way == "naive":  # the score of the stressors is left at 0, so the largest process dies: the application
        bench.put("/root/eat.py", SIZED.format(24))
        eat = "exec python3 /root/eat.py"
        killed = 'dmesg | grep oom-kill | grep -cE "pid=($(cat /run/one)|$(cat /run/two)),"; true'
        spec = custom(
            detached(eat, "/run/one", GROUP)
            + detached(eat, "/run/two", GROUP)
            + f"until grep -q '^oom_kill [1-9]' {GROUP}/memory.events; do sleep 0.1; done; {GONE.format('app')}",
            f"test -s /run/one && grep -q '^oom_kill [1-9]' {GROUP}/memory.events",
            killed,
            kill("/run/one") + "; " + kill("/run/two"),
        )
        trial = bench.attempt(spec, loads=[app], ready=there("app"), under=[alive])
        assert trial.said == ["dead\n"]
        assert trial.acted == 0, "void: no stressor was killed"
    else:
        victim = "stressor" if way == "stressor" else "target"
        spec = {"kind": "memory.oom", "service": "victim", "victim": victim}
        trial = bench.attempt(spec, loads=[app], ready=there("app"), under=[alive])
        trial.proven()
        assert trial.said == ["alive\n" if victim == "stressor" else "dead\n"]
        shown = json.loads(trial.receipt.readings["after"].outputs["oom"].out)
        pids = {entry["pid"] for entry in shown["stressor" if victim == "stressor" else "targets"]}
        assert [kill["pid"] in pids for kill in shown["kills"]] == [True]
        assert shown["stressor"][0]["oom_score_adj"] == (1000 if victim == "stressor" else -1000)
    bench.run(f"echo max > {GROUP}/memory.max")


SUPERVISED = "while :; do " + named("worker", "import time; time.sleep(1000)").replace("exec ", "", 1) + "; done"


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_46_a_target_that_restarts_is_noted_and_its_successor_is_not_met(bench, way):
    restart = (
        "w=$(pgrep -x worker); kill -9 $w; until n=$(pgrep -x worker) && [ $n != $w ]; do sleep 0.1; done; echo $n"
    )
    if way == "naive":  # bound to a pid that is gone
        spec = custom(
            "pgrep -x worker > /run/pid; kill -STOP $(cat /run/pid)",
            "test \"$(cut -d')' -f2 /proc/$(cat /run/pid)/stat | cut -d' ' -f2)\" = T",
            "echo 1",
            "kill -CONT $(cat /run/pid)",
        )
        trial = bench.attempt(spec, loads=[SUPERVISED], ready=there("worker"), under=[restart])
        assert trial.receipt.in_force is False, "void: the fault went with the process"
        assert trial.receipt.undo_ok is False
    else:
        limit = {"kind": "cpu.limit", "name": "worker", "percent": "20%"}
        looks = [restart, "cat /proc/$(pgrep -x worker)/cgroup"]
        trial = bench.attempt(limit, loads=[SUPERVISED], ready=there("worker"), under=looks)
        assert (trial.receipt.in_force, trial.receipt.clean, trial.receipt.undo_ok) == (True, True, True)
        successor = trial.said[0].split()[0]
        noted = next(note for note in trial.receipt.notes if note.startswith("target_restarted:"))
        assert f"{successor} (worker) came instead: the fault is not in force for it" in noted
        assert "stormcell-targets" not in trial.said[1]
    assert "stormcell-targets" not in bench.run("cat /proc/*/cgroup 2> /dev/null || true")


def test_46_a_process_that_took_the_pid_is_neither_signalled_nor_moved(bench):
    """The next process is given the number that has become free (/proc/sys/kernel/ns_last_pid)."""
    again = (
        "P=$(pgrep -x worker); kill -9 $P; while [ -e /proc/$P ]; do sleep 0.02; done; "
        'python3 -c \'import os, time\nwant = int(open("/run/want").read())\nfor _ in range(200):\n'
        '  open("/proc/sys/kernel/ns_last_pid", "w").write(str(want - 1)); p = os.fork()\n'
        "  if not p: time.sleep(0.2 if os.getpid() != want else 30); os._exit(0)\n"
        "  if p == want: os.kill(p, 19); break\n"
        "print(p == want)'"
    )
    state = "cut -d')' -f2 /proc/$(cat /run/want)/stat | cut -d' ' -f2; kill -9 $(cat /run/want)"
    trial = bench.attempt(
        {"kind": "process.stop", "name": "worker"},
        loads=[named("worker", "import time; time.sleep(1000)")],
        ready=there("worker"),
        under=["pgrep -x worker > /run/want", again],
    )
    assert trial.said[1] == "True\n"
    assert trial.receipt.undo_ok
    assert bench.run(state) == "T\n", "who came after was stopped by somebody else, and was not let go"


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_48_an_undo_that_failed_says_so(bench, way):
    if way == "naive":
        spec = custom(
            detached(BURN, "/run/burner") + " sleep 0.3",
            "test -d /proc/$(cat /run/burner)",
            "cut -d')' -f2 /proc/$(cat /run/burner)/stat | cut -d' ' -f13",
            "su nobody -s /bin/sh -c 'kill -9 $(cat /run/burner)'",
        )
        trial = bench.attempt(spec, under=["sleep 0.5"])
        assert trial.receipt.undo_ok is False
        assert trial.receipt.clean is False
        bench.run(kill("/run/burner"))
    else:
        group = "/sys/fs/cgroup/stormcell-targets/fault"
        stranger = (
            "su nobody -s /bin/sh -c '/run/stormcell/bin/stormcell-guest burn stop fault' 2>&1; echo exit $?; "
            "pgrep -c sc-burn"
        )
        frozen = f"echo 1 > {group}/cgroup.freeze; until grep 'frozen 1' {group}/cgroup.events; do sleep 0.1; done"
        trial = bench.attempt({"kind": "cpu.load", "percent": "40%"}, under=[stranger, "sleep 0.5", frozen])
        assert re.search(r"exit [1-9]", trial.said[0]), trial.said[0]
        assert "ermission denied" in trial.said[0]
        assert trial.said[0].endswith("\n1\n"), "it burns on"
        assert "frozen 1" in trial.said[2]
        assert (trial.receipt.undo_ok, trial.receipt.clean) == (True, True), "cgroup.kill reaches who is frozen"
        assert trial.acted
        before, undone = (event["t"] for event in trial.events if event["event"] in ("undone", "reading")
                          and event.get("label") in ("after", None))  # fmt: skip
        assert undone - before < 4, "it is not waited for one that cannot end by itself"
        assert bench.run("pgrep -c sc-burn; ls -d /sys/fs/cgroup/stormcell-targets 2>&1; true").startswith("0\n")


@pytest.mark.parametrize("way", ["naive", "ours"])
def test_60_init_is_not_killed_from_inside_and_the_machine_is_from_outside(bench, way):
    if way == "naive":
        with pytest.raises(SpecError, match=r"process 1 is the guest's init.*machine\.crash"):
            bench.attempt({"kind": "process.kill", "pid": 1})
        assert bench.run("kill -9 1; echo $?; kill -0 1 && echo lives") == "0\nlives\n"
        inside = bench.run("unshare -pf --mount-proc sh -c 'kill -9 1; echo survived'")
        assert inside == "survived\n"
    else:
        spaced = (
            'exec unshare -pf --mount-proc python3 -c \'open("/proc/self/comm", "w").write("nsinit")\nwhile 1: pass\''
        )
        trial = bench.attempt(
            {"kind": "process.kill", "name": "nsinit"},
            loads=[spaced],
            ready=there("nsinit"),
            under=[f"{GONE.format('nsinit')}; pgrep -c nsinit; true"],
        )
        trial.proven()
        assert trial.said == ["0\n"], "the init of a namespace dies from outside"
        alive = {"name": "alive", "command": {"run": "true"}, "expect": {"exit_code": 0}}
        fault = {"kind": "machine.crash", "mode": "panic", "boot": False}
        outcome = run({"name": "init", "template": "base", "steady_state": [alive], "fault": fault})
        receipt = read_receipts(outcome.folder)["fault"]
        assert (receipt.in_force, receipt.acted) == (True, 1)
        assert "Kernel panic - not syncing" in receipt.readings["during"].text("console")
