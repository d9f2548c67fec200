"""Nodes made from their list: namespaces, a bridge with a cable to each, cgroups. Never from inside of one.

The list lies on the disk, so that a machine that was crashed makes its nodes again when it boots.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from stormcell.guest import boot, network, nodes
from stormcell.guest.kernel import MS_BIND, MS_NODEV, MS_NOSUID, mount, write_file
from stormcell.guest.tools.nodes import mounts

SPECS = boot.NODES
BRIDGE, DEVICE = "nodes", "eth0"
ADDRESS, NETMASK, PREFIX = "10.77.0.254", "255.255.255.0", 24
"""Of the machine itself, on the bridge."""
_PRIVATE = 0x40000
_MAC = "02:00:0a:4d:00:{:02x}"
"""Fixed, as all is that a sealed run depends on; the machine's end of a node's cable has 0x80 more."""
_MODULES = ("bridge", "veth")

Spec = Mapping[str, Any]


def save(specs: Sequence[Spec]) -> None:
    """Durable when this returns."""
    os.makedirs(os.path.dirname(SPECS), exist_ok=True)
    with open(f"{SPECS}.new", "w", encoding="utf-8") as file:
        json.dump(specs, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(f"{SPECS}.new", SPECS)
    os.sync()


def saved() -> list[dict[str, Any]]:
    """Every node: {name, address, own, services}. Raises OSError, ValueError."""
    if not os.path.exists(SPECS):
        return []
    with open(SPECS, encoding="utf-8") as file:
        return list(json.load(file))


def make(specs: Sequence[Spec]) -> None:
    """All of them. Raises OSError, LookupError with a sentence, ValueError when there are nodes already."""
    if os.path.isdir(nodes.FOLDER):
        raise ValueError("this machine has nodes already")
    os.makedirs(nodes.FOLDER)
    # the file of a mount namespace can only be bound where nothing propagates (mount_namespaces(7), unshare(1))
    mount("nodes", nodes.FOLDER, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    mount("none", nodes.FOLDER, "", _PRIVATE)
    with open("/etc/hosts", encoding="utf-8") as file:
        hosts = mounts.names({spec["name"]: spec["address"] for spec in specs}, file.read())
    _cgroups([spec["name"] for spec in specs])
    children = [_child(spec, hosts) for spec in specs]
    try:
        for child in children:
            child.hold()
        _cables([spec["name"] for spec in specs])
        for child in children:
            child.furnish()
    finally:
        for child in children:
            child.end()
    write_file(f"{nodes.FOLDER}/hosts", hosts)
    mount(f"{nodes.FOLDER}/hosts", "/etc/hosts", "", MS_BIND)


class _Child:
    """A process that lives in the new namespaces until their files hold them."""

    def __init__(self, node: str, pid: int, connection: socket.socket) -> None:
        self._node = node
        self._pid = pid
        self._connection = connection

    def hold(self) -> None:
        """Bind its namespaces to files."""
        self._expect()
        for kind, _ in nodes.KINDS:
            write_file(path := nodes.held(self._node, kind), "")
            mount(f"/proc/{self._pid}/ns/{kind}", path, "", MS_BIND)

    def furnish(self) -> None:
        """Its cable is there: let it set itself up."""
        self._connection.send(b".")
        self._expect()

    def end(self) -> None:
        """It ends when nobody speaks to it."""
        self._connection.close()
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _expect(self) -> None:
        said = self._connection.recv(4096).decode(errors="replace")
        if said != ".":
            raise OSError(said or f"node '{self._node}' was not made: its process died")


def _child(spec: Spec, hosts: str) -> _Child:
    name = spec["name"]
    os.mkdir(f"{nodes.FOLDER}/{name}")
    mounts.write_names(name, hosts)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _live(spec, theirs)
    theirs.close()
    return _Child(name, pid, ours)


def _live(spec: Spec, connection: socket.socket) -> NoReturn:
    try:
        nodes.unshare()
        connection.send(b".")
        if connection.recv(1):
            _furnish(spec)
            connection.send(b".")
    except Exception as error:
        said = f"{type(error).__name__}: {error}" if not isinstance(error, LookupError) else str(error.args[0])
        connection.send(said.encode()[:1000])
    finally:
        os._exit(0)


def _furnish(spec: Spec) -> None:
    socket.sethostname(spec["name"])
    network.loopback_up()
    _no_ipv6(DEVICE)
    network.address(DEVICE, spec["address"], NETMASK)
    mounts.set_up(spec["name"], spec.get("own") or ())


def _cables(names: Sequence[str]) -> None:
    """IPv4 alone: what IPv6 sends by itself (neighbours, routers, groups) would move the counters of every node."""
    for module in _MODULES:
        if not os.path.isdir(f"/sys/module/{module}"):
            _run(["modprobe", "--", module])
    _ip(
        f"link add {BRIDGE} address {_MAC.format(0xFE)} type bridge forward_delay 0 mcast_snooping 0 stp_state 0",
        *_cable(names),
    )
    ends = [BRIDGE, *(f"node{number}" for number in range(1, len(names) + 1))]
    for device in ends:
        _no_ipv6(device)
    network.address(BRIDGE, ADDRESS, NETMASK)
    _ip(*(f"link set {device} up" for device in ends[1:]))


def _no_ipv6(device: str) -> None:
    with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
        write_file(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6", "1")


def _cable(names: Sequence[str]) -> Iterator[str]:
    for number, name in enumerate(names, 1):
        here, there = f"node{number} address {_MAC.format(0x80 + number)}", f"{DEVICE} address {_MAC.format(number)}"
        yield f"link add {here} type veth peer name {there} netns {nodes.held(name, 'net')}"
        yield f"link set node{number} master {BRIDGE}"


def _ip(*lines: str) -> None:
    _run(["ip", "-batch", "-"], "".join(f"{line}\n" for line in lines))


def _run(argv: Sequence[str], stdin: str = "") -> None:
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise OSError(f"`{' '.join(argv)}` failed: {done.stderr.strip()[-300:]}")


def _cgroups(names: Sequence[str]) -> None:
    for folder in (nodes.CGROUPS, *(path for name in names for path in (nodes.cgroup(name), _commands(name)))):
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/cgroup.controllers", encoding="ascii") as file:
            write_file(f"{folder}/cgroup.subtree_control", " ".join(f"+{name}" for name in file.read().split()))


def _commands(name: str) -> str:
    return f"{nodes.cgroup(name)}/{nodes.COMMANDS}"
