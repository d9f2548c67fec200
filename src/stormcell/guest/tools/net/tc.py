"""`stormcell-guest tc`: the commands of tc that the faults use, in tc's own words, without starting it.

What it is given it sends to the kernel by netlink, and what it shows the kernel answered: without `stormcell-guest`
in front, tc does the same.
"""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Sequence
from typing import Any

from stormcell.guest.tools import common
from stormcell.guest.tools.net import qdiscs
from stormcell.guest.tools.net.netlink import Netlink
from stormcell.guest.tools.net.tcwords import Words

_FLAGS = {"-s", "-j", "-force"}


def perform(kernel: Netlink, line: str) -> list[dict[str, Any]] | None:
    """One command; what it shows. Raises OSError, ValueError, LookupError."""
    words = Words(line)
    what, verb = words.take(), words.take()
    if (what, verb) == ("qdisc", "show"):
        device = words.take() if words.skip("dev") else ""
        return [item for item in qdiscs.listing(kernel) if device in ("", item["dev"])]
    if (what, verb) == ("filter", "show"):
        words.expect("dev")
        return qdiscs.filters(kernel, words.take(), words.take())
    if what == "qdisc" and verb in ("add", "change"):
        words.expect("dev")
        device = words.take()
        words.expect("root")
        words.expect("handle")
        qdiscs.put(kernel, device, words.take(), words, anew=verb == "add")
        return None
    raise ValueError(f"no such command: {what} {verb}; there are qdisc add|change|show and filter show")


def main(argv: Sequence[str]) -> int:
    """`tc [-s] [-j] [-force] (-batch - | COMMAND...)`: JSON, one line for each command that shows something.

    Exit code 1 when a command failed: the rest is done with `-force` only. 2 for a call that cannot be meant.
    """
    flags = {word for word in argv if word in _FLAGS}
    rest = [word for word in argv if word not in _FLAGS]
    lines = sys.stdin.read().splitlines() if rest == ["-batch", "-"] else [" ".join(rest)]
    if not any(line.strip() for line in lines):
        sys.stderr.write("usage: stormcell-guest tc [-s] [-j] [-force] -batch - | qdisc ... | filter ...\n")
        return 2
    code = 0
    with Netlink(socket.NETLINK_ROUTE) as kernel:
        for number, line in enumerate(filter(str.strip, lines), 1):
            try:
                shown = perform(kernel, line)
            except (OSError, ValueError, LookupError) as error:
                sys.stderr.write(f"tc: {line}: {common.describe(error)} (command {number})\n")
                code = 1
                if "-force" not in flags:
                    break
                continue
            if shown is not None:
                sys.stdout.write(json.dumps(shown) + "\n")
    return code
