"""Processes: an observer beside the fault sees what its receipt says, and a bystander is left alone."""

import json
import re

import pytest

from tests.guest.faults.resource_loads import (
    DEAF,
    GROUP,
    IDLER,
    KEEP,
    NAME,
    SPINNER,
    TICKER,
    join,
    joined,
    named,
    python,
    there,
    trying,
    when_there,
)
from tests.guest.faults.resource_watch import goes_on, grows
from tests.guest.faults.test_cpu_faults import nothing_of_ours

SERVER = named(
    "server",
    'import os, socket\nos.setuid(65534)\ns = socket.create_server(("127.0.0.1", 7002))\n'
    'while 1:\n  c, _ = s.accept(); c.sendall(b"hello"); c.close()',
)
ASK = (
    'python3 -c \'import socket\ns = socket.create_connection(("127.0.0.1", 7002), 2); s.settimeout(0.7)\n'
    'try: print(s.recv(9))\nexcept TimeoutError: print("no answer")\''
)
STATES = "for p in server neighbour; do cut -d')' -f2 /proc/$(pgrep -x $p)/stat | cut -d' ' -f2; done"


@pytest.mark.parametrize(
    "spec",
    [{"port": 7002, "how": "signal"}, {"name": "server", "how": "freeze"}, {"user": "nobody"}],
    ids=["port", "freeze", "user"],
)
def test_a_stopped_server_takes_connections_and_does_not_answer(bench, spec):
    trial = bench.attempt(
        {"kind": "process.stop", **spec},
        loads=[f"{join()} {SERVER}", TICKER],
        ready=f"ss -Hltn 'sport = :7002' | grep -q . && {there('neighbour')}",
        under=[ASK, STATES, goes_on("neighbour")],
    )
    trial.proven()
    assert trial.said[0] == "no answer\n"
    stopped, other = trial.said[1].split()
    assert stopped == ("S" if spec.get("how") == "freeze" else "T") or spec.get("how") == "freeze"
    assert other in ("R", "S")
    assert int(trial.said[2]) > 5, "the neighbour goes on"
    assert trial.acted == 1
    nothing_of_ours(bench)


def test_who_was_stopped_before_stays_stopped(bench):
    halted = named("halted", "import os; os.kill(os.getpid(), 19)")
    state = "cut -d')' -f2 /proc/$(pgrep -x halted)/stat | cut -d' ' -f2"
    trial = bench.attempt(
        {"kind": "process.stop", "name": "halted"},
        loads=[f"({halted}) & sleep 3600"],
        ready=f"{there('halted')} && [ $({state}) = T ]",
        under=[state],
    )
    assert trial.receipt.in_force
    assert trial.acted == 0
    assert trial.receipt.clean
    assert trial.said[0].strip() == "T"


def test_a_frozen_service_uses_no_time_and_goes_on(bench):
    used = f"grep usage_usec {GROUP}/cpu.stat | tr -dc 0-9; echo; cat {GROUP}/cgroup.freeze"
    trial = bench.attempt(
        {"kind": "process.stop", "service": "victim", "how": "freeze"},
        loads=[SPINNER],
        ready=joined(),
        under=[f"{used}; sleep 0.7; {used}"],
    )
    trial.proven()
    first, frozen, last, _ = map(int, trial.said[0].split())
    assert frozen == 1
    assert last - first < 20_000
    assert bench.run(f"cat {GROUP}/cgroup.freeze") == "0\n"


def test_every_signal_that_a_handler_saw_was_counted(bench):
    # a byte is written within each delivery: Python itself calls a function once for signals that come close together
    text = (
        'import os, signal, time\nseen = os.open("/run/seen", os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NONBLOCK)\n'
        "signal.set_wakeup_fd(seen, warn_on_full_buffer=False)\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n"
        f"{NAME.format('counter')}\nwhile 1: time.sleep(5)"
    )
    settled = 'until [ "$now" ] && [ "$now" = "$was" ]; do was=$now; sleep 1.5; now=$(stat -c %s /run/seen); done'
    trial = bench.attempt(
        {"kind": "process.signal", "name": "counter", "signal": "USR1", "rate": "20/s", "count": 12},
        loads=[f"exec python3 -c '{text}'", DEAF],
        ready=there("counter", "deaf"),
        under=["sleep 0.6", settled, "stat -c %s /run/seen; grep SigIgn /proc/$(pgrep -x deaf)/status"],
    )
    trial.proven()
    seen = int(trial.said[2].split()[0])
    assert 0 < seen <= 12
    assert trial.acted == seen
    assert not any("deaf" in note for note in trial.receipt.notes)
    nothing_of_ours(bench)


def test_a_service_without_pids_cannot_fork_and_others_can(bench):
    # it forks under the limit alone: a child that lives when the limit is set would be counted in
    text = (
        f"{KEEP}import time\nrefused = 0\nwhile 1:\n  time.sleep(0.03)\n"
        f'  if "max" in open("{GROUP}/pids.max").read(): continue\n'
        "  try:\n    p = os.fork()\n    if not p: os._exit(0)\n    os.waitpid(p, 0)\n"
        '  except BlockingIOError:\n    refused += 1; keep("/run/refused", refused)'
    )
    trial = bench.attempt(
        {"kind": "process.pids", "service": "victim", "leave": 0},
        loads=[python(text)],
        ready=joined(),
        under=[
            f"rm -f /run/refused; {when_there('/run/refused')}",
            "(true) && echo forked",
        ],
    )
    trial.proven()
    assert 0 < int(trial.said[0]) <= trial.acted  # it is refused until the undo, which a busy host delays
    assert trial.said[1] == "forked\n"
    assert bench.run(f"cat {GROUP}/pids.max") == "max\n"


def test_no_descriptor_is_left_for_the_target_and_its_children(bench):
    text = (
        "import os, time, subprocess\nopened, refused = [], 0\nchild = None\nwhile 1:\n"
        '  try: opened.append(os.open("/dev/null", 0)) if len(opened) < 400 else time.sleep(0)\n'
        "  except OSError as e: refused += e.errno == 24\n"
        "  if refused and not child: child = os.fork() or time.sleep(999)\n"
        '  open("/run/opened", "w").write(f"{len(opened)} {refused}") if 0 else None\n  time.sleep(0.02)'
    )
    files = "ls /proc/$(pgrep -x other)/fd | wc -l"
    limits = "for p in $(pgrep -x opener); do grep 'open files' /proc/$p/limits | tr -s ' ' | cut -d' ' -f4,5; done"
    trial = bench.attempt(
        {"kind": "process.descriptors", "name": "opener", "leave": 3},
        loads=[named("opener", text), trying("other", 'open("/dev/null")'), "sleep 3600"],
        ready=there("opener", "other"),
        under=[f"until [ $(pgrep -cx opener) = 2 ]; do sleep 0.1; done; {limits}", grows(f"$({files})", 20)],
    )
    trial.proven()
    held = trial.said[0].split()
    assert len(held) == 4
    assert held[0] == held[2] != "1024", "the child inherits it"
    assert int(trial.said[1]) > 20, "a bystander opens what it likes"
    after = trial.receipt.readings["undone"].outputs["rlimit"].out
    assert re.findall(r'"shown": (\d+)', after) == ["1024", "1024"]
    nothing_of_ours(bench)


def test_the_guest_has_no_descriptor_left_but_root_has(bench):
    nobody = "su nobody -s /bin/sh -c 'cat /etc/hostname > /dev/null' 2>&1; true"
    trial = bench.attempt(
        {"kind": "process.descriptors"},
        loads=[trying("opener", 'open("/dev/null")', 65534)],
        ready=there("opener"),
        under=["sleep 0.4", nobody, "cat /etc/hostname > /dev/null && echo fine"],
    )
    trial.proven()
    assert "Too many open files in system" in trial.said[1] or trial.said[1] == ""
    assert trial.said[2] == "fine\n"
    assert int(bench.run("cat /proc/sys/fs/file-max")) > 10_000


def test_a_user_gets_no_more_threads_and_another_user_does(bench):
    thread = "threading.Thread(target=time.sleep, args=(900,), daemon=True).start()"
    count = "$(ls /proc/$(pgrep -x {})/task | wc -l)"
    look = f"{grows(count.format('other'), 10)}; echo {count.format('threader')}"
    trial = bench.attempt(
        {"kind": "process.threads", "name": "threader", "leave": 2},
        loads=[trying("threader", thread, 65534), trying("other", thread, 12345)],
        ready=there("threader", "other"),
        under=[look, look],
    )
    trial.proven()
    (_, held), (_, still) = (said.split() for said in trial.said)
    assert held == still, "while the other one got more and more"
    nothing_of_ours(bench)


def test_a_pile_of_zombies_counts_against_the_target(bench):
    bench.run(f"mkdir -p {GROUP}")
    everywhere = "ps -e -o stat= | grep -c ^Z || true"
    before = int(bench.run(everywhere))
    zombies = "ps --ppid $(pgrep -xo sc-zombies) -o stat= | grep -c ^Z"
    trial = bench.attempt(
        {"kind": "process.zombies", "service": "victim", "count": 150}, under=[f"{zombies}; cat {GROUP}/pids.current"]
    )
    trial.proven()
    seen, current = map(int, trial.said[0].split())
    assert seen == 150
    assert current == 151
    bench.run(f"while [ $({everywhere}) -gt {before} ]; do sleep 0.1; done")
    nothing_of_ours(bench)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"kind": "process.stop", "name": "nosuch"}, "there is no process of name 'nosuch' to stop"),
        ({"kind": "process.kill", "pid": 2}, "process 2 (kthreadd) is a thread of the kernel"),
        ({"kind": "process.stop", "port": 4711, "how": "freeze"}, "there is no process of port '4711'"),
        ({"kind": "process.signal", "name": "nosuch", "signal": "HUP", "rate": "1/s"}, "there is no process of name"),
        ({"kind": "process.pids", "service": "nosuch", "leave": 0}, "there is no cgroup"),
        ({"kind": "process.descriptors", "name": "nosuch"}, "there is no process of name 'nosuch'"),
        ({"kind": "process.descriptors", "name": "idler", "leave": 100_000}, "already, not more than"),
        ({"kind": "process.threads", "name": "idler"}, "use process.pids"),
        ({"kind": "process.zombies", "service": "nosuch", "count": 3}, "there is no cgroup"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(bench, spec, why):
    load = {"loads": [IDLER], "ready": there("idler")} if spec.get("name") == "idler" else {}
    trial = bench.attempt(spec, **load, under=["true"])
    assert trial.receipt.apply_ok is not True
    assert why in trial.stop
    nothing_of_ours(bench)


def test_the_agent_is_never_stopped_moved_or_held_to_a_limit(bench):
    agent = int(bench.run("head -1 /sys/fs/cgroup/stormcell/agent/cgroup.procs"))
    for spec in (
        {"kind": "process.kill", "pid": agent},
        {"kind": "process.stop", "pid": agent},
        {"kind": "process.descriptors", "pid": agent},
        {"kind": "cpu.limit", "pid": agent, "percent": "10%"},
        {"kind": "memory.hold", "pid": agent, "size": "4MiB"},
    ):
        trial = bench.attempt(spec)
        assert "has to survive the fault" in trial.stop
    nothing_of_ours(bench)


LOAD = "exec su nobody -s /bin/sh -c 'exec sleep 1000'"
LIVES = f"{join()} while :; do setpriv --reuid=nobody sleep 1001; sleep 0.1; done"


def test_a_run_is_no_target_of_its_own_fault(bench):
    """Turn by turn all processes of nobody are killed: but not the probe that looks meanwhile, nor the load."""
    spec = {"kind": "process.kill", "user": "nobody"}
    schedule = {"pulse": {"on": "100ms", "off": "3s", "times": 2}}
    trial = bench.watched(
        {**spec, "schedule": schedule},
        ["sleep", "5"],
        user="nobody",
        loads=[LOAD, LIVES],
        ready=f"[ $(pgrep -cu nobody -x sleep) = 2 ] && {joined()}",
    )
    trial.proven()
    seen = [json.loads(reading.outputs["victims"].out) for label, reading in trial.receipt.readings.items()
            if label.startswith("during")]  # fmt: skip
    assert {victim["comm"] for shown in seen for victim in shown["sent"]} <= {"sleep", "setpriv"}
    assert [len(shown["sent"]) for shown in seen] == [1, 1]
    (probe,) = (event for event in trial.events if event["event"] == "probe")
    assert [sample[2] for sample in probe["samples"]] == [0], "it came to its end"
    ended = [event["err"] for event in trial.events if event["event"] == "load" and event["state"] == "stopped"]
    assert len(ended) == 2
    assert [event["load"] for event in trial.events if event["event"] == "load" and event["state"] == "exited"] == []
    nothing_of_ours(bench)


def test_what_a_probe_runs_is_not_found_by_name_and_a_load_is(bench):
    spec = {"kind": "process.kill", "name": "sleep", "schedule": {"at": "500ms", "lasts": "100ms"}}
    trial = bench.watched(spec, ["sleep", "4"], loads=["exec sleep 1000"], ready=there("sleep"))
    trial.proven()
    assert trial.acted == 1
    (probe,) = (event for event in trial.events if event["event"] == "probe")
    assert [sample[2] for sample in probe["samples"]] == [0]


def test_a_turn_that_finds_nobody_passes_and_is_told(bench):
    schedule = {"pulse": {"on": "100ms", "off": "100ms", "times": 3}}
    slow = f"{join()} while :; do python3 -c 'import time; time.sleep(1000)'; sleep 5; done"
    spec = {"kind": "process.kill", "name": "python3", "schedule": schedule}
    runs = f"cat $(sed 's,.*,/proc/&/comm,' {GROUP}/cgroup.procs) 2> /dev/null | grep -qx python3"
    trial = bench.watched(spec, ["sleep", "3"], loads=[slow], ready=runs)
    trial.proven()
    told = [note for note in trial.receipt.notes if "passed: there is no process of name 'python3' to signal" in note]
    assert 1 <= len(told) <= 2
    assert all(note.split()[3] == "3" for note in told)
    assert trial.acted == trial.receipt.cycles - len(told)
    never = bench.watched({**spec, "name": "nosuch"}, ["sleep", "3"])
    assert (never.receipt.apply_ok, never.receipt.in_force, never.acted) == (False, False, 0)


def test_what_other_faults_put_into_the_group_is_no_target(bench):
    """A service is killed while a load burns in its group: the load burns on."""
    bench.run(f"mkdir -p {GROUP}; stormcell-guest burn load other service victim 1 20 cpu")
    trial = bench.attempt(
        {"kind": "process.kill", "service": "victim"},
        loads=[python("import time; time.sleep(999)")],
        ready=joined(),
    )
    trial.proven()
    assert trial.acted == 1
    assert bench.run("pgrep -c sc-burn; stormcell-guest burn stop other") == "1\n"
    nothing_of_ours(bench)


def test_frozen_twice_is_refused_and_the_first_stays(bench):
    bench.run(f"sh -c '{join()} exec sleep 1000' > /dev/null 2>&1 & until {joined()}; do sleep 0.1; done")
    bench.run(f"echo 1 > {GROUP}/cgroup.freeze")
    trial = bench.attempt({"kind": "process.stop", "service": "victim", "how": "freeze"})
    assert "is frozen already" in trial.stop
    assert (
        bench.run(f"cat {GROUP}/cgroup.freeze; echo 1 > {GROUP}/cgroup.kill; echo 0 > {GROUP}/cgroup.freeze") == "1\n"
    )
