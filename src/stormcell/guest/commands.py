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
    "undo": "stormcell.guest.undo:main",
    "watchdog": "stormcell.guest.watchdog:main",
    "inventory": "stormcell.guest.inventory:main",
    "needs": "stormcell.guest.needs:main",
    "probe": "stormcell.guest.probes:main",
    "backlog": "stormcell.guest.tools.backlog:main",
    "block": "stormcell.guest.tools.block:main",
    "bpf": "stormcell.guest.tools.bpf:main",
    "burn": "stormcell.guest.tools.burn:main",
    "caches": "stormcell.guest.tools.caches:main",
    "cgroup": "stormcell.guest.tools.cgroup:main",
    "clock": "stormcell.guest.tools.clock:main",
    "conntable": "stormcell.guest.tools.conntable:main",
    "cut": "stormcell.guest.tools.cut:main",
    "delay": "stormcell.guest.tools.delay:main",
    "dns": "stormcell.guest.tools.dns:main",
    "down": "stormcell.guest.tools.down:main",
    "file": "stormcell.guest.tools.filefault:main",
    "fill": "stormcell.guest.tools.fill:main",
    "hold": "stormcell.guest.tools.hold:main",
    "hosts": "stormcell.guest.tools.hosts:main",
    "iolimit": "stormcell.guest.tools.iolimit:main",
    "kill": "stormcell.guest.tools.kill:main",
    "link": "stormcell.guest.tools.link:main",
    "lock": "stormcell.guest.tools.filelock:main",
    "nft": "stormcell.guest.tools.nft:main",
    "online": "stormcell.guest.tools.online:main",
    "oom": "stormcell.guest.tools.oom:main",
    "ports": "stormcell.guest.tools.ports:main",
    "quota": "stormcell.guest.tools.quota:main",
    "reach": "stormcell.guest.tools.reach:main",
    "readonly": "stormcell.guest.tools.readonly:main",
    "relay": "stormcell.guest.tools.relay:main",
    "rlimit": "stormcell.guest.tools.rlimit:main",
    "seccomp": "stormcell.guest.tools.seccomp:main",
    "shorten": "stormcell.guest.tools.shorten:main",
    "stop": "stormcell.guest.tools.stop:main",
    "storm": "stormcell.guest.tools.storm:main",
    "swap": "stormcell.guest.tools.swap:main",
    "tc": "stormcell.guest.tools.tc:main",
    "timens": "stormcell.guest.tools.timens:main",
    "volume": "stormcell.guest.tools.volume:main",
    "zombies": "stormcell.guest.tools.zombies:main",
    "zone": "stormcell.guest.tools.zone:main",
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
