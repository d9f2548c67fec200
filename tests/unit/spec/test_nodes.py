"""Nodes as a person writes them."""

import pytest
from pydantic import ValidationError

from stormcell.engine.load import load_file, load_mapping
from stormcell.spec.errors import SpecError
from stormcell.spec.experiment import Experiment
from stormcell.spec.nodes import Node, addresses, specs

PROBE = {"name": "alive", "command": {"run": "exit 0"}, "expect": {"exit_code": 0}}
FAULT = {"kind": "net.drop"}


def experiment(**fields):
    return Experiment.model_validate({"name": "x", "steady_state": [PROBE], "fault": FAULT, **fields})


def test_addresses_go_by_order_unless_one_is_written():
    nodes = experiment(nodes={"a": None, "b": {"address": "10.77.0.9"}, "c": {}}).nodes
    assert addresses(nodes) == {"a": "10.77.0.1", "b": "10.77.0.9", "c": "10.77.0.3"}


def test_what_the_guest_is_told():
    services = {
        "db": {
            "run": ["redis-server", "--port", "1"],
            "user": "redis",
            "ready": "redis-cli ping",
            "ready_within": "9s",
        },
        "web": "exec python3 -m http.server",
    }
    assert specs(experiment(nodes={"a": {"services": services, "own": ["/var/lib/redis/"]}}).nodes) == [
        {
            "name": "a",
            "address": "10.77.0.1",
            "own": ["/var/lib/redis"],
            "services": [
                {
                    "name": "db",
                    "command": ["redis-server", "--port", "1"],
                    "user": "redis",
                    "ready": "redis-cli ping",
                    "ready_timeout": 9.0,
                },
                {"name": "web", "command": ["/bin/sh", "-c", "exec python3 -m http.server"]},
            ],
        }
    ]


BAD = [
    ({"nodes": {"db_1": {}}}, "'db_1' is no host name"),
    ({"nodes": {"-a": {}}}, "'-a' is no host name"),
    ({"nodes": {"A": {}}}, "'A' is no host name"),
    ({"nodes": {"localhost": {}}}, "'localhost' is reserved: it is every node's own name for itself"),
    ({"nodes": {"a": {}, "b": {"address": "10.77.0.1"}}}, "node 'b' has the address 10.77.0.1, which is that of 'a'"),
    ({"nodes": {"a": {"address": "10.77.0.2"}, "b": {}}}, "node 'b' has the address 10.77.0.2, which is that of 'a'"),
    ({"nodes": {"a": {"address": "192.168.0.1"}}}, "no address of a node"),
    ({"nodes": {"a": {"address": "10.77.0.254"}}}, "the machine's own"),
    ({"nodes": {"a": {"address": "first"}}}, "no IPv4 address"),
    ({"nodes": {"a": {"service": {}}}}, "did you mean 'services'?"),
    ({"nodes": {"a": {"services": {"Web": "true"}}}}, "'Web' is no name of a service"),
    ({"nodes": {"a": {"services": {"web": {"ready": "true"}}}}}, "Field required"),
    ({"nodes": {"a": {"own": ["var/lib"]}}}, "no absolute path"),
    ({"nodes": {"a": {"own": ["/run/redis"]}}}, "its own /run and /tmp"),
    ({"nodes": {"a": {"own": ["/var/lib", "/var/lib/redis"]}}}, "is in '/var/lib'"),
    ({"nodes": {f"n{number}": {} for number in range(33)}}, "32 are the most"),
    ({"nodes": {"left": {}}, "setup": [{"run": "true", "node": "lef"}]}, "did you mean 'left'?"),
    ({"load": [{"name": "l", "run": "true", "node": "a"}]}, "this experiment has no 'nodes'"),
    ({"nodes": {"a": {}}, "steady_state": [{**PROBE, "node": "b"}]}, "there is no node 'b'"),
]


@pytest.mark.parametrize(("fields", "said"), BAD)
def test_what_cannot_be_meant_is_refused(fields, said):
    with pytest.raises(ValidationError) as refusal:
        experiment(**fields)
    assert said in str(refusal.value)


def test_a_probe_from_the_host_is_in_no_node():
    probe = {"name": "web", "http": {"url": "http://web/"}, "from": "host", "node": "a", "expect": {"success_rate": 1}}
    with pytest.raises(ValidationError, match="not a node's"):
        experiment(nodes={"a": {}}, open_ports={"web": 80}, steady_state=[probe])


FILE = """\
name: x
template: base
steady_state: [{name: a, command: {run: "true"}, expect: {exit_code: 0}}]
fault: {kind: net.delay, device: lo, delay: 1ms}
"""


def test_a_node_may_have_no_settings_but_nodes_have_a_node(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(f"{FILE}nodes:\n  a:\n  b: {{}}\n")
    assert load_file(path).experiment.nodes == {"a": Node(), "b": Node()}
    path.write_text(f"{FILE}nodes: {{}}\n")
    with pytest.raises(SpecError, match=r"nodes: there is none in it[^$]*leave `nodes` out, or name one") as refusal:
        load_file(path)
    assert refusal.value.where == f"{path}:5"


def test_an_experiment_without_nodes_is_read_back():
    """A run's folder keeps it with `nodes: {}`."""
    assert load_mapping(experiment().model_dump(mode="json", by_alias=True, exclude_none=True)).experiment.nodes == {}
