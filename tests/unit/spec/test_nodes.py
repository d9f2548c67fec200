"""Nodes as a person writes them."""

import pytest
from pydantic import ValidationError

from stormcell.spec.experiment import Experiment
from stormcell.spec.nodes import addresses, specs

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
    ({"nodes": {"localhost": {}}}, "'localhost' is no host name"),
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
