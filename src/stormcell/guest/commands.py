"""The subcommands of the guest file: a name and the function that serves it, imported when it is called.

Each is `def main(argv: list[str]) -> int` and prints JSON on stdout.
"""

from __future__ import annotations

import sys
from importlib import import_module

COMMANDS: dict[str, str] = {
    "init": "stormcell.guest.init:main",
    "agent": "stormcell.guest.agent:main",
    "service": "stormcell.guest.control:main",
    "run-plan": "stormcell.guest.runner:main",
    "join": "stormcell.guest.rendezvous:main",
    "terminal": "stormcell.guest.terminal:main",
    "undo": "stormcell.guest.undo:main",
    "watchdog": "stormcell.guest.watchdog:main",
    "inventory": "stormcell.guest.inventory:main",
    "needs": "stormcell.guest.needs:main",
    "probe": "stormcell.guest.probes:main",
    "backlog": "stormcell.guest.tools.port.backlog:main",
    "block": "stormcell.guest.tools.block.tool:main",
    "bpf": "stormcell.guest.tools.bpf.tool:main",
    "burn": "stormcell.guest.tools.cpu.burn:main",
    "caches": "stormcell.guest.tools.memory.caches:main",
    "cgroup": "stormcell.guest.tools.cgroup:main",
    "clock": "stormcell.guest.tools.clock.tool:main",
    "conntable": "stormcell.guest.tools.port.conntable:main",
    "cut": "stormcell.guest.tools.net.cut:main",
    "delay": "stormcell.guest.tools.traced.delay:main",
    "dns": "stormcell.guest.tools.dns.tool:main",
    "down": "stormcell.guest.tools.net.down:main",
    "file": "stormcell.guest.tools.file.tool:main",
    "fill": "stormcell.guest.tools.disk.fill:main",
    "hold": "stormcell.guest.tools.memory.hold:main",
    "hosts": "stormcell.guest.tools.net.hosts:main",
    "iolimit": "stormcell.guest.tools.disk.iolimit:main",
    "kill": "stormcell.guest.tools.process.kill:main",
    "link": "stormcell.guest.tools.net.link:main",
    "lock": "stormcell.guest.tools.file.lock:main",
    "nft": "stormcell.guest.tools.net.nft:main",
    "node": "stormcell.guest.tools.nodes.tool:main",
    "online": "stormcell.guest.tools.cpu.online:main",
    "oom": "stormcell.guest.tools.memory.oom:main",
    "ports": "stormcell.guest.tools.port.tool:main",
    "quota": "stormcell.guest.tools.disk.quota:main",
    "reach": "stormcell.guest.tools.net.reach:main",
    "readonly": "stormcell.guest.tools.disk.readonly:main",
    "relay": "stormcell.guest.tools.relay.tool:main",
    "rlimit": "stormcell.guest.tools.process.rlimit:main",
    "schedule-noise": "stormcell.guest.tools.schedule.noise:main",
    "seccomp": "stormcell.guest.tools.seccomp.tool:main",
    "shorten": "stormcell.guest.tools.traced.shorten:main",
    "stop": "stormcell.guest.tools.process.stop:main",
    "storm": "stormcell.guest.tools.process.storm:main",
    "swap": "stormcell.guest.tools.memory.swap:main",
    "tc": "stormcell.guest.tools.net.tc:main",
    "timens": "stormcell.guest.tools.clock.timens:main",
    "volume": "stormcell.guest.tools.block.volume:main",
    "zombies": "stormcell.guest.tools.process.zombies:main",
    "zone": "stormcell.guest.tools.clock.zone:main",
}


def main(argv: list[str]) -> int:
    """Serve `argv` (without the program's name). Exit code 2 for a subcommand that is not there."""
    if not argv or argv[0] not in COMMANDS:
        sys.stderr.write(f"usage: stormcell-guest {'|'.join(sorted(COMMANDS))} ...\n")
        return 2
    module, _, function = COMMANDS[argv[0]].partition(":")
    return int(getattr(import_module(module), function)(argv[1:]))


def warm() -> None:
    """Import every subcommand's module, so that the agent's children find it in memory. A broken one is left out."""
    for target in COMMANDS.values():
        try:
            import_module(target.partition(":")[0])
        except Exception as error:
            sys.stderr.write(f"stormcell-guest: {target}: {error}\n")
