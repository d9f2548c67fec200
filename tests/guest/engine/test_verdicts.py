"""For each verdict a run in which it must come out; void above all."""

import json

import pytest

from stormcell.engine.api import judge_folder
from stormcell.spec.errors import SpecError
from tests.guest.engine.conftest import PROBE, codes

SERVER = {
    "run": "python3 -m http.server 8000 --directory /etc >/dev/null 2>&1 & "
    "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null; "
    "do sleep 0.2; done"
}
WEB = {
    "name": "web",
    "http": {"url": "http://127.0.0.1:8000/hostname", "count": 4, "timeout": "5s"},
    "expect": {"success_rate": 1},
}
DELAY = {"kind": "net.delay", "device": "lo", "delay": "50ms"}


def test_survived_rests_on_packets_that_the_kernel_counted(outcome_of):
    outcome = outcome_of(DELAY, WEB, setup=[SERVER], predict="survives")
    assert outcome.verdict == "survived"
    (fault,) = outcome.result.faults
    assert fault.in_force and fault.clean and fault.acted and fault.acted > 0
    assert outcome.result.surprise is False
    assert [(p.phase, p.vantage, p.samples) for p in outcome.result.probes] == [
        ("before", "guest", 4),
        ("under", "guest", 4),
        ("recovery", "guest", 4),
    ]
    under = next(p for p in outcome.result.probes if p.phase == "under")
    assert under.metrics["p50"] is not None and under.metrics["p50"] >= 0.2  # two round trips, each 2 x 50 ms on lo


def test_failed_names_the_probe_and_the_number(outcome_of):
    fault = {"kind": "net.reject", "device": "lo", "remote_port": 8000, "protocol": "tcp"}
    outcome = outcome_of(fault, WEB, setup=[SERVER], predict="survives")
    assert outcome.verdict == "failed"
    assert codes(outcome)[0] == "out_of_bounds"
    assert "'web'" in outcome.result.reasons[0].text
    assert outcome.result.surprise is True


def test_failed_when_it_does_not_come_back(outcome_of):
    probe = {
        "name": "service",
        "command": {"run": "kill -0 $(cat /run/victim)"},
        "expect": {"exit_code": 0},
        "under_fault": {"exit_code": ">= 0"},
    }
    outcome = outcome_of(
        {"kind": "process.kill", "name": "sleep"},
        probe,
        setup=[{"run": "sleep 1000 >/dev/null 2>&1 & echo $! > /run/victim"}],
        recovery={"within": "2s"},
        predict={"fails": "service"},
    )
    assert outcome.verdict == "failed"
    assert codes(outcome)[0] == "recovery_failed"
    assert outcome.result.surprise is False


def test_void_when_nothing_crossed_the_fault(outcome_of):
    outcome = outcome_of({"kind": "net.delay", "device": "eth0", "delay": "50ms", "address": "192.0.2.1"})
    assert outcome.verdict == "void"
    assert codes(outcome)[0] == "never_acted"
    assert outcome.result.faults[0].in_force is True


def test_void_when_something_in_the_guest_undoes_the_fault(outcome_of):
    daemon = "r=$(date +%s); u=$(cut -d. -f1 /proc/uptime); while sleep 0.2; do date -s @$((r - u + $(cut -d. -f1 /proc/uptime))) >/dev/null; done"  # noqa: E501  # one shell line
    outcome = outcome_of({"kind": "clock.jump", "by": "2h"}, load=[{"name": "ntp", "run": daemon}], settle="3s")
    assert outcome.verdict == "void"
    assert codes(outcome)[0] == "not_in_force"


def test_void_when_it_was_broken_before_and_no_fault_is_injected(outcome_of):
    broken = {**PROBE, "command": {"run": "exit 7"}}
    outcome = outcome_of(DELAY, broken)
    assert outcome.verdict == "void"
    assert codes(outcome)[0] == "broken_before"
    events = (outcome.folder / "events.jsonl").read_text()
    assert '"applied"' not in events and '"receipt"' not in events


def test_void_when_the_probe_measured_nothing(outcome_of):
    blind = {"name": "blind", "command": {"run": "echo none", "number": "([0-9]+) rows"}, "expect": {"number": ">= 0"}}
    outcome = outcome_of(DELAY, blind)
    assert outcome.verdict == "void"
    assert codes(outcome)[0] == "measured_nothing"


def test_void_when_the_setup_fails_with_its_output(outcome_of):
    outcome = outcome_of(DELAY, setup=[{"run": "echo no such thing >&2; exit 3"}])
    assert outcome.verdict == "void"
    assert codes(outcome)[0] == "setup_failed"
    assert "no such thing" in outcome.result.reasons[0].text


def test_a_foreign_qdisc_that_is_there_stays_and_the_fault_acts_beside_it(outcome_of):
    foreign = {
        "name": "foreign",
        "command": {"run": "tc qdisc show dev lo", "match": "tbf 77:"},
        "expect": {"matches": True},
    }
    setup = [{"run": "tc qdisc add dev lo root handle 77: tbf rate 1gbit burst 1mb latency 50ms"}]
    ping = {"name": "ping", "command": {"run": "ping -c 2 -W 2 127.0.0.1"}, "expect": {"exit_code": 0}}
    outcome = outcome_of(DELAY, foreign, ping, setup=setup)
    assert outcome.verdict == "survived", outcome.result.reasons


def test_void_when_the_place_of_the_fault_is_taken_and_it_stays(outcome_of):
    mine = {
        "name": "mine",
        "command": {"run": "nft list table netdev stormcell_net_drop_1"},
        "expect": {"exit_code": 0},
    }
    setup = [{"run": "nft add table netdev stormcell_net_drop_1; nft add chain netdev stormcell_net_drop_1 mine"}]
    outcome = outcome_of({"kind": "net.drop", "device": "lo", "remote_port": 9}, mine, setup=setup)
    assert outcome.verdict == "void"
    assert codes(outcome)[0] in ("apply_failed", "not_in_force")


def test_that_pid_1_is_to_be_killed_is_refused_before_anything_starts(outcome_of):
    with pytest.raises(SpecError, match="process 1 is the guest's init"):
        outcome_of({"kind": "process.kill", "pid": 1})


def test_void_when_there_is_nobody_to_kill(outcome_of):
    outcome = outcome_of({"kind": "process.kill", "name": "no-such-program"})
    assert outcome.verdict == "void"
    assert "no-such-program" in outcome.result.reasons[0].text


def test_unknown_when_the_guest_dies_by_itself(outcome_of):
    load = [{"name": "bomb", "run": "sleep 1; echo c > /proc/sysrq-trigger"}]
    outcome = outcome_of(DELAY, WEB, setup=[SERVER], load=load, settle="20s")
    assert outcome.verdict == "unknown"
    assert codes(outcome)[0] == "guest_lost"
    assert "panic" in (outcome.folder / "console.log").read_text().lower()


def test_unknown_when_the_deadline_passes(outcome_of):
    outcome = outcome_of(DELAY, setup=[{"run": "sleep 60"}], deadline="6s")
    assert outcome.verdict == "unknown"
    assert codes(outcome)[0] == "deadline"


def test_a_log_that_was_cut_off_is_never_a_pass(outcome_of):
    outcome = outcome_of(DELAY, WEB, setup=[SERVER])
    log = outcome.folder / "events.jsonl"
    whole = log.read_bytes()
    for share in range(100):
        log.write_bytes(whole[: len(whole) * share // 100])
        complete = b'"event": "end"' in log.read_bytes()
        assert complete or judge_folder(outcome.folder).verdict in ("unknown", "void")


def test_the_folder_holds_all_that_the_verdict_rests_on(outcome_of):
    outcome = outcome_of(DELAY, WEB, setup=[SERVER])
    assert sorted(p.name for p in outcome.folder.iterdir()) == [
        "console.log",
        "events.jsonl",
        "plan.json",
        "receipts.json",
        "result.json",
        "spec.json",
    ]
    released = json.loads((outcome.folder / "events.jsonl").read_text().splitlines()[-1])
    assert released["event"] == "released"
    assert all(process["gone"] for process in released["evidence"]["processes"])
    assert released["evidence"]["files"]["gone"] is True
