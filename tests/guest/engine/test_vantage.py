"""Probes from the host, through a forwarded port; and a crash that meets a working machine."""

from typing import Any

from stormcell.engine.api import Outcome
from stormcell.judge.events import read_events
from tests.guest.engine.conftest import codes
from tests.guest.engine.test_verdicts import SERVER

OUTSIDE = {
    "name": "outside",
    "http": {"url": "http://web/hostname", "count": 4, "timeout": "8s"},
    "from": "host",
    "expect": {"success_rate": 1},
}


def probes(outcome: Outcome) -> list[dict[str, Any]]:
    """What was measured before, under and after the fault."""
    events = read_events(outcome.folder / "events.jsonl")
    return [event for event in events if event["event"] in ("probe", "recovered")]


def test_a_delay_on_the_nic_is_seen_from_outside(outcome_of):
    fault = {"kind": "net.delay", "device": "eth0", "delay": "300ms"}
    outcome = outcome_of(fault, OUTSIDE, setup=[SERVER], open_ports={"web": 8000})
    assert outcome.verdict == "survived"
    before, under, after = (min(sample[1] for sample in event["samples"]) for event in probes(outcome))
    # a new connection with one request: the guest's SYN-ACK and its answer are late, one after the other
    assert under >= 0.6
    assert before < 0.5 and after < 0.5, "the best of four"
    assert {p.vantage for p in outcome.result.probes} == {"host"}


def test_a_broken_probe_from_the_host_stops_the_run_before_the_fault(outcome_of):
    outcome = outcome_of({"kind": "net.delay", "device": "eth0", "delay": "50ms"}, OUTSIDE, open_ports={"web": 8000})
    assert outcome.verdict == "void"
    assert codes(outcome)[0] == "broken_before"
    assert '"applied"' not in (outcome.folder / "events.jsonl").read_text()


def test_a_crash_meets_a_working_machine_and_what_was_flushed_is_there_after_the_boot(outcome_of):
    writer = (
        "import os,sys\n"
        "f=os.open('/root/ledger',os.O_CREAT|os.O_WRONLY|os.O_APPEND)\n"
        "n=0\n"
        "while True:\n"
        "    n+=1; os.write(f,b'%d\\n'%n); os.fdatasync(f)\n"
    )
    rows = {
        "name": "rows",
        "command": {
            "run": "until test -s /root/ledger; do sleep 0.1; done; sleep 0.5; wc -l < /root/ledger",
            "number": "([0-9]+)",
        },
        "expect": {"number": ">= 1"},
    }
    load = [{"name": "writer", "run": ["python3", "-c", writer]}]
    outcome = outcome_of({"kind": "machine.crash", "mode": "power"}, rows, load=load)
    assert outcome.verdict == "survived"
    before, after = (p.metrics["number"] for p in outcome.result.probes)
    assert before is not None and after is not None
    # lines were added between the probe and the cut: the load was still at work
    assert after > before
