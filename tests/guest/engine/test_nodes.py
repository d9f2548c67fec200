"""Several nodes in one machine: they see each other, and a fault meets the one that it names."""

import json
from typing import Any

import pytest

from tests.guest.engine.conftest import codes

PYTHON = ["python3", "-I", "-S", "-c"]
WEB = {
    "run": [*PYTHON, "import socket\ns = socket.create_server(('', 80))\nwhile 1: s.accept()"],
    "ready": "python3 -I -S -c 'import socket, os; socket.create_connection((os.uname().nodename, 80))'",
}
SEND = (
    "exec python3 -I -S -c 'import socket, time\n"
    "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
    'while 1: s.sendto(b"x", ("PEER", 9)); time.sleep(0.1)\''
)
HEAR = (
    "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(3); s.bind(('', 9)); s.recv(9)"
)
NOBODYS = "nft list ruleset | grep . || tc qdisc show | grep -E 'netem|tbf' || ip -br link | grep -E 'sc[0-9]'"


def command(name: str, node: str | None, run: str | list[str], **expect: Any) -> dict[str, Any]:
    probe = {"name": name, "command": {"run": run}, "expect": {"exit_code": 0}, **expect}
    return probe if node is None else {**probe, "node": node}


def fetches(name: str, node: str, peer: str, **more: Any) -> dict[str, Any]:
    tcp = {"address": f"{peer}:80", "count": 2, "timeout": "1s"}
    # one after the other: a machine that stands still for a moment delays one of them
    return {"name": name, "node": node, "tcp": tcp, "expect": {"success_rate": ">= 50%"}, **more}


def events(outcome: Any, kind: str) -> list[dict[str, Any]]:
    lines = (outcome.folder / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def reading(outcome: Any, fault: str, name: str) -> dict[str, Any]:
    found = [e for e in events(outcome, "reading") if e["fault"] == fault and e["label"] == "after"]
    answer = json.loads(found[0]["reading"]["outputs"][name]["out"])
    assert isinstance(answer, dict)
    return answer


def test_a_one_way_partition_a_memory_limit_and_a_kill_each_in_a_node_of_its_own(outcome_of):
    nodes = {"a": {"services": {"web": WEB}}, "b": {}, "c": {"services": {"web": WEB}}, "d": {}}
    faults = {
        "one-way": {"kind": "net.drop", "node": "b", "to": "a"},
        "small": {"kind": "memory.limit", "node": "d", "max": "16MiB"},
        "dead": {"kind": "process.kill", "node": "c", "service": "web"},
    }
    load = [
        {"name": "to-b", "node": "a", "run": SEND.replace("PEER", "b"), "until": "end"},
        {"name": "to-a", "node": "b", "run": SEND.replace("PEER", "a"), "until": "end"},
        {"name": "hog", "node": "d", "run": "while :; do head -c 24m /dev/zero | tail -c 24m | sleep 1; done"},
    ]
    who = "test $(hostname) = b && getent hosts a c && ls /sys/class/net /tmp /run/lock && grep -q nodes /proc/mounts"
    outcome = outcome_of(
        None,
        fetches("a-from-b", "b", "a", under_fault={"success_rate": "0%"}),
        fetches("a-from-c", "c", "a"),
        command("heard-in-b", "b", [*PYTHON, HEAR]),
        command("heard-in-a", "a", [*PYTHON, HEAR], under_fault={"exit_code": "!= 0"}),
        command("nothing-in-a", "a", f"! ({NOBODYS})"),
        command("nothing-in-the-machine", None, f"! ({NOBODYS})"),
        {"name": "own-file", "node": "c", "file": {"path": "/etc/hostname", "match": "^c$"},
         "expect": {"matches": True}},
        faults=faults, nodes=nodes, load=load, setup=[{"run": who, "node": "b"}, {"run": "ping -c 1 -W 5 a"}],
    )  # fmt: skip
    assert outcome.verdict == "survived", outcome.result.reasons
    found = {f.fault: (f.in_force, bool(f.acted), f.clean) for f in outcome.result.faults}
    assert found == dict.fromkeys(faults, (True, True, True))
    (told,) = [e for e in events(outcome, "inventory") if e["label"] == "undone"]
    assert told["differences"] == []
    (sizes,) = [e["sizes"] for e in events(outcome, "inventory") if e["label"] == "before"]
    assert sizes["links"] >= 2 + 1 + 4 + 2 * 4, "the nodes' devices are looked at, too"
    folders = reading(outcome, "small", "cgroup")
    assert folders["folder"] == "/sys/fs/cgroup/nodes/d"
    assert any("task_memcg=/nodes/d/commands/load-" in line for line in folders["oom"])
    (killed,) = [e["outputs"] for e in events(outcome, "applied") if e["fault"] == "dead"]
    assert json.dumps(killed).count("start_time") == 1, "the service of the same name in a lives on"


def test_a_crash_brings_back_the_nodes_and_what_they_wrote(outcome_of):
    """`own` is a folder on the disk; /var/www of the one is not that of the other."""
    serve = {**WEB, "run": "exec python3 -m http.server 80 --directory /srv"}
    nodes = {"a": {"services": {"web": serve}, "own": ["/srv"]}, "b": {"own": ["/srv"]}}
    page = {"url": "http://a/page", "count": 2, "timeout": "20s"}
    outcome = outcome_of(
        {"kind": "machine.crash", "mode": "reboot"},
        {"name": "page", "node": "b", "http": page, "expect": {"success_rate": "100%"}},
        command("apart", "b", "! test -e /srv/page"),
        nodes=nodes,
        setup=[{"node": "a", "run": "echo kept > /srv/page; sync"}, {"run": "! test -e /srv/page"}],
        recovery={"within": "60s"},
    )
    assert outcome.verdict == "survived", outcome.result.reasons


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ({"run": "echo it hurts; exit 3", "restart": "never"}, "service 'web' of node 'a' does not run: failed"),
        ({"run": "exec nobody-has-this", "restart": "never", "ready": "true"}, "nobody-has-this: not found"),
        ({"run": "echo up; exec sleep 60", "ready": "false", "ready_within": "300ms"}, "not ready within 0.3 s"),
    ],
)
def test_a_service_that_does_not_come_up_ends_the_run(outcome_of, service, said):
    outcome = outcome_of({"kind": "net.drop", "node": "a"}, nodes={"a": {"services": {"web": service}}})
    assert (outcome.verdict, codes(outcome)) == ("void", ["setup_failed"])
    assert said in outcome.result.reasons[0].text
