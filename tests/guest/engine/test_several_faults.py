"""Several faults in one run, schedules and abort conditions, in a real machine."""

import json
from typing import Any

from tests.guest.engine.conftest import codes

GROUP = "/sys/fs/cgroup/services/v"
SPIN = {
    "name": "spin",
    "run": f"mkdir -p {GROUP}; echo +cpu +memory > /sys/fs/cgroup/services/cgroup.subtree_control; "
    f"echo $$ > {GROUP}/cgroup.procs; exec python3 -c 'while 1: pass'",
}
PING: dict[str, Any] = {
    "name": "ping",
    "command": {"run": "ping -c 3 -i 0.2 -W 2 127.0.0.1"},
    "expect": {"exit_code": 0},
}
DELAYED = "tc qdisc show | grep -q netem"
DELAY = {"kind": "net.delay", "device": "lo", "delay": "20ms"}
BUSY = {"kind": "cpu.limit", "cgroup": GROUP, "percent": "20%"}


def events(outcome: Any, kind: str) -> list[dict[str, Any]]:
    lines = (outcome.folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def test_together_each_with_its_own_receipt_and_nothing_left(outcome_of):
    pulse = {"pulse": {"on": "1s", "off": "300ms", "times": 2}}
    faults = {
        "late": DELAY,
        "busy": {**BUSY, "schedule": pulse},
        "old": {"kind": "clock.jump", "by": "-1h", "schedule": {"at": "300ms", "lasts": "1s"}},
    }
    long = {**PING, "command": {"run": "ping -c 30 -i 0.2 -W 2 127.0.0.1"}}
    outcome = outcome_of(None, long, faults=faults, load=[SPIN])
    assert outcome.verdict == "survived", outcome.result.reasons
    assert [(f.fault, f.in_force, bool(f.acted), f.clean) for f in outcome.result.faults] == [
        ("late", True, True, True),
        ("busy", True, True, True),
        ("old", True, True, True),
    ]
    for fault, asked in (("busy", 1.0), ("old", 1.0)):
        for held in next(f.held for f in outcome.result.faults if f.fault == fault):
            assert held.asked_s == asked
            assert held.had_s >= asked
    assert [e["do"] for e in events(outcome, "moment") if e["fault"] == "busy"] == ["apply", "undo"] * 2
    (last,) = [e for e in events(outcome, "inventory") if e["label"] == "undone"]
    assert last["differences"] == []
    between = [e for e in events(outcome, "inventory") if e["label"] == "between"]
    assert len(between) == 2
    assert {item["what"] for item in between[-1]["differences"]} <= {"links", "rules", "queues"}  # the delay's own
    assert between[-1]["differences"]


def test_void_when_one_of_two_touched_nothing(outcome_of):
    idle = {"kind": "net.delay", "device": "eth0", "address": "192.0.2.1", "delay": "20ms"}
    outcome = outcome_of(None, PING, faults={"late": DELAY, "idle": idle})
    assert outcome.verdict == "void"
    assert codes(outcome) == ["never_acted"]
    assert [(f.fault, bool(f.acted)) for f in outcome.result.faults] == [("late", True), ("idle", False)]


def test_a_kernel_counter_past_its_bound_ends_the_run(outcome_of):
    abort = {"file": f"{GROUP}/cpu.stat", "key": "nr_throttled", "when": "> 3", "every": "100ms"}
    outcome = outcome_of(BUSY, load=[SPIN], abort=[abort], hold="60s")
    assert outcome.verdict == "failed"
    assert codes(outcome)[0] == "aborted"
    assert outcome.result.aborted
    assert outcome.result.guest_seconds < 50
    assert outcome.result.faults[0].clean


def test_what_somebody_leaves_in_the_guest_is_named(outcome_of):
    """What may be the fault's is a finding; where no fault of the run works it is told, and no more."""
    leaver = {
        "name": "leaver",
        "run": f"until {DELAYED}; do sleep 0.1; done; "
        "mount -t tmpfs -o size=1m left /mnt; ip link set lo mtu 1400; sleep 60",
    }
    left = "until ip link show lo | grep -q 'mtu 1400'; do sleep 0.1; done"
    waits = {**PING, "command": {"run": f"! {DELAYED} || {left}; ping -c 1 -W 10 127.0.0.1"}}
    outcome = outcome_of({"kind": "net.delay", "device": "lo", "delay": "5ms"}, waits, load=[leaver])
    assert outcome.verdict == "failed"
    assert codes(outcome) == ["left_behind"]
    said = outcome.result.reasons[0].text
    assert "in links, 'lo'" in said
    assert "or a process of the workload did it" in said
    assert any("in mounts, '/mnt (/)'" in sentence for sentence in outcome.result.cannot_know)


def test_the_ttl_undoes_what_outlasts_it(outcome_of):
    long = f"ping -c 1 127.0.0.1; {DELAYED} && sleep 60; true"
    slow = {"name": "slow", "command": {"run": long, "timeout": "70s"}, "expect": {"exit_code": 0}}
    outcome = outcome_of(DELAY, slow, ttl="4s")
    assert outcome.verdict == "void", outcome.result.reasons
    assert codes(outcome)[0] == "ttl"
    assert outcome.result.faults[0].clean


def test_a_probe_from_the_host_past_its_bound_ends_the_run(outcome_of):
    serve = "cd /etc && python3 -m http.server 8000"
    web = {"name": "web", "http": {"url": "http://web/hostname", "count": 2, "timeout": "1s"}, "from": "host"}
    look = "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))'"
    wait = f"for n in $(seq 100); do {look} && break; done"
    probe = {**web, "expect": {"success_rate": ">= 50%"}, "under_fault": {"success_rate": ">= 0"}}
    outcome = outcome_of(
        {"kind": "net.drop", "device": "eth0", "direction": "in", "local_port": 8000},
        probe,
        open_ports={"web": 8000},
        setup=[{"run": f"({serve} >/dev/null 2>&1 &); {wait} 2>/dev/null"}],
        abort=[{"probe": "web", "when": {"success_rate": "< 50%"}, "every": "200ms"}],
        hold="60s",
    )
    assert codes(outcome)[0] == "aborted", outcome.result.reasons
    assert "from the host" in outcome.result.reasons[0].text
    assert outcome.result.guest_seconds < 50
