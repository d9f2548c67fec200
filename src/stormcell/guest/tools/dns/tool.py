"""`stormcell-guest dns`: start, change, show and stop the DNS proxy of a fault; flush caches; ask with a fresh name."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from stormcell.guest.tools import background, common, processes
from stormcell.guest.tools.dns import wire
from stormcell.guest.tools.dns.judge import Judge, Orders
from stormcell.guest.tools.dns.proxy import Proxy
from stormcell.guest.tools.net.conntrack import Conntrack

RESOLV_CONF = "/etc/resolv.conf"
HOSTS = "/etc/hosts"
PROBE_S = 1.0
FLUSH_S = 10.0
CACHES: dict[str, tuple[str, ...]] = {
    "nscd": ("nscd", "-i", "hosts"),
    "systemd-resolve": ("resolvectl", "flush-caches"),
    "unbound": ("unbound-control", "flush_zone", "."),
    "dnsmasq": (),
}
"""Caching daemons by command name (15 characters), and how each is emptied; dnsmasq by SIGHUP."""


def start(fault: str, port: str, mark: str, orders: str) -> None:
    """The proxy listens on `port` when this returns."""
    judge = Judge(Orders.of(json.loads(orders)))
    proxy = Proxy(judge, int(port), int(mark))
    background.start(fault, proxy.run, judge.answer)


def empty(fault: str) -> dict[str, Any]:
    """Empty the caches, once queries are led to the proxy: what they learn from now on comes through it."""
    common.put_mark(_caches(fault), flush())
    return {"flushed": common.get_mark(_caches(fault))}


def change(fault: str, orders: str) -> None:
    """Other orders, in place."""
    if background.ask(fault, {"change": json.loads(orders)}) is None:
        raise LookupError("the proxy of this fault does not run")


def stop(fault: str, port: str) -> dict[str, Any]:
    """End the proxy, forget the flows that still lead to it, empty the caches of what it said."""
    there = background.is_there(fault)
    background.stop(fault)
    common.drop_mark(_caches(fault))
    table = Conntrack()
    try:
        forgotten = table.forget_redirected(int(port))
    finally:
        table.close()
    return {"forgotten": forgotten, "flushed": flush() if there else {}}


def show(fault: str) -> dict[str, Any]:
    """What the proxy did and does, what a fresh query is told, and what answers without any query."""
    told = background.ask(fault, {"show": True})
    if told is None:
        return {"running": False, "left": background.is_there(fault)}
    orders = Orders.of(told["orders"])
    return {
        "running": True,
        **told,
        "probe": None if orders.do == "slow" else probe(fault, orders),
        "hosts": in_hosts(orders.names),
        "caches": common.get_mark(_caches(fault)) or {},
    }


def probe(fault: str, orders: Orders) -> dict[str, Any]:
    """Ask for a name that no cache can know, where the pattern allows one, as an ordinary client would."""
    pattern = orders.names[0]
    fresh = f"sc-{secrets.token_hex(8)}"
    name = {"*": f"{fresh}.invalid"}.get(pattern, pattern.replace("*", fresh, 1))
    four = orders.do != "wrong" or any("." in address for address in orders.addresses)
    message = wire.query(name, wire.TYPES["A" if four else "AAAA"])
    for server in (*servers(), "127.0.0.1"):
        try:
            return {"name": name, "server": server, **_asked(fault, server, message)}
        except OSError as error:
            failed = {"name": name, "server": server, "error": common.describe(error)}
    return failed


def _asked(fault: str, server: str, message: bytes) -> dict[str, Any]:
    with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(PROBE_S)
        client.connect((server, 53))
        background.ask(fault, {"ours": client.getsockname()[1]})
        began = time.monotonic()
        client.send(message)
        said = wire.answered(client.recv(65535))
        took = time.monotonic() - began
    if said is None:
        raise OSError("the answer is none")
    return {"rcode": said[0], "addresses": said[1], "seconds": round(took, 6)}


def servers() -> list[str]:
    """The name servers of resolv.conf that are plain addresses."""
    lines = [line.split() for line in (common.read_text(RESOLV_CONF) or "").splitlines()]
    named = [words[1] for words in lines if len(words) > 1 and words[0] == "nameserver"]
    return [address for address in named if "%" not in address]


def in_hosts(patterns: Sequence[str]) -> list[str]:
    """Names of /etc/hosts that the fault means: they need no query."""
    lines = [line.partition("#")[0].split() for line in (common.read_text(HOSTS) or "").splitlines()]
    names = {name.lower() for words in lines for name in words[1:]}
    return sorted(name for name in names if wire.matches(name, patterns))[:16]


def daemons() -> dict[str, list[int]]:
    """Caching daemons that run, and their pids."""
    found: dict[str, list[int]] = {}
    for process in processes.everyone():
        if process.comm in CACHES:
            found.setdefault(process.comm, []).append(process.pid)
    return found


def flush() -> dict[str, str]:
    """Empty the cache of every caching daemon that runs: its name, and `flushed` or why not."""
    said = {}
    for daemon, pids in daemons().items():
        argv = CACHES[daemon]
        if not argv:
            for pid in pids:
                os.kill(pid, signal.SIGHUP)
            said[daemon] = "flushed"
        elif shutil.which(argv[0]) is None:
            said[daemon] = f"there is no {argv[0]}"
        else:
            try:
                done = subprocess.run(argv, capture_output=True, timeout=FLUSH_S, check=False)
                said[daemon] = "flushed" if done.returncode == 0 else f"{argv[0]} ended with {done.returncode}"
            except (OSError, subprocess.TimeoutExpired) as error:
                said[daemon] = common.describe(error)
    return said


def _caches(fault: str) -> str:
    return f"{fault}.caches"


def main(argv: list[str]) -> int:
    """`dns start|empty|change|show|stop`."""
    verbs: dict[str, common.Verb] = {"start": start, "empty": empty, "change": change, "show": show, "stop": stop}
    return common.serve("dns", verbs, argv)
