"""Nodes: parts of one machine with a network, a host name, mounts and a cgroup of their own, joined by a bridge."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, field_validator

from stormcell.spec.probe import Run
from stormcell.spec.units import Duration
from stormcell.spec.value import Value, nearest, wrong_at

NETWORK = ipaddress.IPv4Network("10.77.0.0/24")
"""Of all nodes."""
MACHINE = "10.77.0.254"
"""The machine's own address in it: what runs in no node is seen from there."""
MOST = 32
SERVICE = r"^[a-z0-9][a-z0-9_.-]{0,63}$"
_HOST_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\Z")


def _host_name(name: str) -> str:
    if name == "localhost":
        raise ValueError("'localhost' is reserved: it is every node's own name for itself; write for example db-1")
    if not _HOST_NAME.match(name):
        raise ValueError(
            f"'{name}' is no host name: small letters, digits and - are allowed, at most 63, and neither end is a -; "
            "write for example db-1"
        )
    return name


NodeName = Annotated[str, AfterValidator(_host_name)]
"""A host name."""


def _service(value: object) -> object:
    return {"run": value} if isinstance(value, str | list | tuple) else value


class NodeService(Value):
    """A program that runs in the foreground in a node, in a cgroup of its own. A text alone is its `run`."""

    run: Run
    """Shell text (begin it with `exec`), or a list of arguments."""
    user: str | None = None
    cwd: str | None = None
    env: dict[str, str] = Field(default_factory=dict)
    before: str | None = None
    """Shell text, run in the node as root before each start, for at most 15 s."""
    ready: str | None = None
    """Shell text, run in the node as root again and again until it exits with 0; only then the next service starts."""
    ready_within: Duration = 60.0
    restart: Literal["always", "never"] = "always"
    """What becomes of it when it ends."""
    restart_delay: Duration = 1.0


class Node(Value):
    """One node. It sees the others by name, has an empty /run and /tmp, and shares the other files of the machine."""

    address: str | None = None
    """In 10.77.0.0/24; by default the first node has 10.77.0.1, the second 10.77.0.2, and so on."""
    services: dict[str, Annotated[NodeService, BeforeValidator(_service)]] = Field(default_factory=dict)
    """By name, started in this order."""
    own: tuple[str, ...] = ()
    """Folders of which it has its own copy, made when the node is: /var/lib/redis, say."""

    @field_validator("address")
    @classmethod
    def _in_the_network(cls, address: str | None) -> str | None:
        if address is None:
            return None
        try:
            found = ipaddress.IPv4Address(address)
        except ValueError:
            raise ValueError(f"'{address}' is no IPv4 address; write for example 10.77.0.7") from None
        if found not in NETWORK or found in (NETWORK.network_address, NETWORK.broadcast_address):
            raise ValueError(f"'{address}' is no address of a node; they are in {NETWORK}, for example 10.77.0.7")
        if str(found) == MACHINE:
            raise ValueError(f"'{address}' is the machine's own; the nodes' are 10.77.0.1 to 10.77.0.253")
        return str(found)

    @field_validator("services")
    @classmethod
    def _service_names(cls, services: dict[str, NodeService]) -> dict[str, NodeService]:
        for name in services:
            if not re.match(SERVICE, name) or name == "commands":
                raise ValueError(f"'{name}' is no name of a service; small letters, digits and _ . - are allowed")
        return services

    @field_validator("own")
    @classmethod
    def _folders(cls, own: tuple[str, ...]) -> tuple[str, ...]:
        for path in own:
            parts = path.split("/")
            if not path.startswith("/") or ".." in parts or path.strip("/") == "" or not path.isprintable():
                raise ValueError(f"'{path}' is no absolute path of a folder without '..'")
            if parts[1] in ("dev", "proc", "run", "sys", "tmp"):
                raise ValueError(f"'{path}': every node has its own /run and /tmp, and /dev, /proc and /sys are shared")
        folders = tuple(path.rstrip("/") for path in own)
        for path in folders:
            if above := next((one for one in folders if one != path and path.startswith(f"{one}/")), None):
                raise ValueError(f"'{path}' is in '{above}', which is in the list; leave it out")
        return tuple(dict.fromkeys(folders))


def _or_empty(value: object) -> object:
    return {key: {} if item is None else item for key, item in value.items()} if isinstance(value, Mapping) else value


def _no_collision(nodes: dict[str, Node]) -> dict[str, Node]:
    if len(nodes) > MOST:
        raise ValueError(f"{len(nodes)} nodes are more than one machine is given; {MOST} are the most")
    taken: dict[str, str] = {}
    for name, address in addresses(nodes).items():
        if address in taken:
            raise wrong_at(f"node '{name}' has the address {address}, which is that of '{taken[address]}'", name)
        taken[address] = name
    return nodes


Nodes = Annotated[dict[NodeName, Node], BeforeValidator(_or_empty), AfterValidator(_no_collision)]
"""By name, in order."""


def addresses(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Each node's address by its name."""
    return {name: node.address or str(NETWORK[number]) for number, (name, node) in enumerate(nodes.items(), 1)}


def unknown(name: str, nodes: Mapping[str, Node]) -> str:
    """Why there is no such node."""
    if not nodes:
        return f"there is no node '{name}': this experiment has no 'nodes'; write for example nodes: {{{name}: {{}}}}"
    return f"there is no node '{name}'; {nearest(name, nodes)}"


def specs(nodes: Mapping[str, Node]) -> list[dict[str, Any]]:
    """As the guest takes them (guest/tools/nodes/making.py)."""
    places = addresses(nodes)
    return [
        {
            "name": name,
            "address": places[name],
            "own": list(node.own),
            "services": [_entry(key, service) for key, service in node.services.items()],
        }
        for name, node in nodes.items()
    ]


def _entry(name: str, service: NodeService) -> dict[str, Any]:
    command = ["/bin/sh", "-c", service.run] if isinstance(service.run, str) else list(service.run)
    entry: dict[str, Any] = {"name": name, "command": command}
    entry |= service.model_dump(mode="json", exclude={"run", "ready_within"}, exclude_defaults=True)
    return entry | ({"ready_timeout": service.ready_within} if service.ready is not None else {})
