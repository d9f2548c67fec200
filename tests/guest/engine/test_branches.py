"""One machine driven to a moment and forked: branches with real faults, a control, and what makes it all void."""

import json

from stormcell import run
from stormcell.engine.api import judge_folder
from stormcell.judge.events import read_events
from tests.guest.engine.conftest import codes

SERVER = {
    "run": "python3 -m http.server 8000 --directory /etc >/dev/null 2>&1 & "
    "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8000))' 2>/dev/null; "
    "do sleep 0.2; done"
}
WRITER = {"name": "writer", "run": "i=0; while :; do i=$((i+1)); echo $i >> /run/count; sleep 0.1; done"}
WEB = {
    "name": "web",
    "http": {"url": "http://web/hostname", "count": 12, "timeout": "5s"},
    "from": "host",
    "expect": {"success_rate": "100%"},
}
COUNT = {
    "name": "count",
    "command": {"run": "sleep 0.5; tail -n 1 /run/count", "number": "([0-9]+)"},
    "expect": {"number": ">= 5"},
}
REFUSED = {"kind": "net.reject", "device": "eth0", "direction": "in", "local_port": 8000, "protocol": "tcp"}


def test_one_branch_deviates_from_the_control_and_one_does_not(template):
    outcome = run(
        {
            "name": "parted",
            "open_ports": {"web": 8000},
            "setup": [SERVER],
            "load": [WRITER],
            "steady_state": [WEB, COUNT],
            "moment": {"probe": "web", "settle": "1s"},
            "branches": {
                "refused": {"fault": REFUSED, "predict": {"fails": "web"}},
                "wrong-time": {"fault": {"kind": "clock.jump", "by": "1h"}, "predict": "survives"},
            },
        },
        template=template,
    )
    result = outcome.result
    assert (result.verdict, result.surprise) == ("failed", False), result.reasons
    assert [(branch.name, branch.result.verdict) for branch in result.branches] == [
        ("control", "survived"),
        ("refused", "failed"),
        ("wrong-time", "survived"),
    ]
    assert result.comparison is not None
    rates = [row for row in result.comparison.rows if row.metric == "success_rate"]  # latencies are the host's, too
    assert [(row.branch, row.deviates) for row in rates] == [("refused", True), ("wrong-time", False)]
    for branch in result.branches[1:]:
        (fault,) = branch.result.faults
        assert fault.in_force and fault.clean and fault.acted
    assert judge_folder(outcome.folder) == result
    begins, loads = [], []
    for branch in result.branches:
        own = outcome.folder / branch.folder
        assert judge_folder(own) == branch.result
        events = read_events(own / "events.jsonl")
        begins.append(next(event for event in events if event["event"] == "begin"))
        loads.append([event["state"] for event in events if event["event"] == "load"])
    assert len({(begin["boot_id"], begin["pid"]) for begin in begins}) == 1  # one machine, one runner
    assert len({begin["generation"] for begin in begins}) == 3  # and three lives
    assert max(begin["wall"] for begin in begins) - min(begin["wall"] for begin in begins) < 5
    assert loads == [["goes_on", "stopped"]] * 3
    saved = json.loads((outcome.folder / "result.json").read_text())
    assert [row["branch"] for row in saved["comparison"]["rows"]].count("refused") == 4


def test_a_control_that_fails_makes_it_void_and_ends_it(template):
    once = {
        "name": "once",
        "command": {"run": "echo x >> /run/calls; test $(wc -l < /run/calls) -le 1"},
        "expect": {"exit_code": 0},
    }
    branches = {"wrong-time": {"kind": "clock.jump", "by": "1h"}}
    asked = {"name": "tired", "steady_state": [once], "moment": {"after": "0s"}, "branches": branches}
    outcome = run({**asked, "recovery": {"within": "0s"}}, template=template)
    assert (outcome.verdict, codes(outcome)) == ("void", ["control_failed"])
    assert "not run after that: wrong-time" in outcome.result.reasons[0].text
    assert [branch.name for branch in outcome.result.branches] == ["control"]
    assert judge_folder(outcome.folder) == outcome.result


def test_a_moment_that_never_comes_makes_it_void(template):
    asked = {
        "name": "never",
        "steady_state": [{**COUNT, "command": {"run": "true"}, "expect": {"exit_code": 0}}],
        "load": [WRITER],
        "moment": {"log": {"file": "/run/count", "match": "^no number$"}, "within": "1s"},
        "branches": {"wrong-time": {"kind": "clock.jump", "by": "1h"}},
    }
    outcome = run(asked, template=template)
    assert (outcome.verdict, codes(outcome)) == ("void", ["no_moment"])
    assert "a line in /run/count matches '^no number$'" in outcome.result.reasons[0].text
    assert judge_folder(outcome.folder) == outcome.result
