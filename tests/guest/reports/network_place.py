"""Where the network reports are tried: two peers behind veth pairs, each in a network namespace of the guest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.guest.faults.fault_trial import until
from tests.guest.faults.network_said import TOOL, connect

FAR, FAR6, NEAR = "10.77.0.2", "fd77::2", "10.77.0.1"
OTHER = "10.78.0.2"
ON_FAR = "ip netns exec far"
ON_OTHER = "ip netns exec other"
PLACE = """
for n in far other; do ip netns add $n; ip -n $n link set lo up; done
ip link add near0 type veth peer name far0 netns far
ip link add near1 type veth peer name other0 netns other
ip -n far link add side0 type veth peer name side1 netns other
ip addr add 10.77.0.1/24 dev near0; ip addr add fd77::1/64 dev near0 nodad; ip link set near0 up
ip addr add 10.78.0.1/24 dev near1; ip link set near1 up
ip -n far addr add 10.77.0.2/24 dev far0; ip -n far addr add fd77::2/64 dev far0 nodad; ip -n far link set far0 up
ip -n other addr add 10.78.0.2/24 dev other0; ip -n other link set other0 up
ip -n far addr add 10.79.0.1/24 dev side0; ip -n far link set side0 up
ip -n other addr add 10.79.0.2/24 dev side1; ip -n other link set side1 up
printf '10.77.0.2 far.test\\nfd77::2 far.test\\n' >> /etc/hosts
for h in 10.77.0.2 fd77::2 10.78.0.2; do until ping -c 1 -W 2 -q $h > /dev/null; do :; done; done
"""


WAYS = pytest.mark.parametrize("way", ["naive", "ours"])


def ready(bench: Any, modules: str) -> Any:
    """The place, made of these kernel modules, with a server of ours on each host; the bench."""
    bench.run(f"modprobe -a {modules}; modprobe ifb numifbs=0; true")
    bench.run(PLACE)
    for where in ("", ON_FAR, ON_OTHER):
        bench.run(f"setsid {where} {TOOL} serve 9000 > /dev/null 2>&1 &")
    for host in (FAR, OTHER, NEAR):
        bench.run(until(f"{connect(host)} | grep -q OK"))
    return bench


def custom(apply: str, undo: str, shows: str, counter: str) -> dict[str, Any]:
    """The naive way: somebody's own commands."""
    return {"kind": "custom.commands", "apply": apply, "undo": undo, "shows": shows, "counter": counter}


def netem_packets(device: str, what: str = "packets") -> str:
    """The counter of a netem qdisc, as a command."""
    return (
        f'tc -s -j qdisc show dev {device} | python3 -c "import json, sys; '
        f"print(sum(q['{what}'] for q in json.load(sys.stdin) if q['kind'] == 'netem'))\""
    )


def judged(trial: Any) -> str:
    """Why the run would be void, `acted` when it would count."""
    receipt = trial.receipt
    if receipt.missing:
        return "unsupported"
    if receipt.apply_ok is not True:
        return "apply_failed"
    if receipt.in_force is not True:
        return "not_in_force"
    return "acted" if receipt.acted else "never_acted"
