"""What a fault needs of the guest, checked; each thing that is missing comes with its reason."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from stormcell.guest.lifeline import Lifeline
from stormcell.guest.running import Run, Runnery
from stormcell.guest.spawn import OURS, SEARCH_PATH

MODULES = "/lib/modules"
QUIET = {"ifb": "numifbs=0", "dummy": "numdummies=0"}
"""Modules that make devices when they are loaded, and how they are kept from it."""


def missing(needs: Mapping[str, Sequence[str]], run: Run) -> list[str]:
    """A sentence for each need that is not met; a module that is not there yet is loaded."""
    found = [
        f"program '{name}' is not on the PATH"
        for name in needs.get("programs", ())
        if name not in OURS and shutil.which(name, path=SEARCH_PATH) is None
    ]
    found += [f"path '{path}' is not there" for path in needs.get("paths", ()) if not os.path.exists(path)]
    for name in needs.get("modules", ()):
        if (why := _module(name, run)) is not None:
            found.append(f"kernel module '{name}' {why}")
    return found


def _module(name: str, run: Run) -> str | None:
    plain = name.replace("-", "_")
    if os.path.isdir(f"/sys/module/{plain}") or plain in _builtin():
        return None
    done = run({"argv": ["modprobe", "--", name, *filter(None, [QUIET.get(name)])], "timeout_s": 30.0})
    if done.outcome == 0:
        return None
    return f"cannot be loaded ({done.output()['err'].strip()[-200:] or f'modprobe: exit {done.outcome}'})"


def _builtin() -> set[str]:
    """Modules that are part of the running kernel; not all of them have a folder in /sys/module."""
    try:
        with open(f"{MODULES}/{os.uname().release}/modules.builtin", encoding="utf-8") as file:
            return {os.path.basename(line.strip()).partition(".")[0].replace("-", "_") for line in file}
    except OSError:
        return set()


def main(argv: list[str]) -> int:
    """`needs`: reads {name: needs} on stdin, prints {name: [what is missing]}."""
    asked = json.loads(sys.stdin.read())
    run = Runnery(Lifeline(None)).run
    answer: dict[str, Any] = {name: missing(needs, run) for name, needs in asked.items()}
    sys.stdout.write(json.dumps(answer) + "\n")
    return 0
