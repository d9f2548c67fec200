"""Drop clean caches (Documentation/admin-guide/sysctl/vm.rst, drop_caches) and say by how much they shrank."""

from __future__ import annotations

import os
from typing import Any

from stormcell.guest.kernel import write_file
from stormcell.guest.tools import common

_CODES = {"pagecache": "1", "slab": "2", "all": "3"}
_MEMORY = ("Cached", "Buffers", "SReclaimable", "Dirty", "MemFree")
_EVENTS = ("drop_pagecache", "drop_slab")


def drop(mark: str, what: str, sync: str) -> dict[str, Any]:
    """Drop them; with `sync` what is dirty is written first, so that it can be dropped too."""
    if sync == "sync":
        os.sync()
    before = sizes()
    common.put_mark(mark, {"what": what, "before": before})
    write_file("/proc/sys/vm/drop_caches", _CODES[what])
    told = {"what": what, "sync": sync == "sync", "before": before, "after": sizes()}
    common.put_mark(mark, told)
    return told


def show(mark: str) -> dict[str, Any]:
    """What the act did, and the sizes now."""
    return {"act": common.get_mark(mark), "now": sizes()}


def forget(mark: str) -> None:
    """Nothing is undone: caches fill again by use."""
    common.drop_mark(mark)


def sizes() -> dict[str, int]:
    """Bytes by kind (/proc/meminfo), and how often something was dropped since the boot (/proc/vmstat)."""
    found: dict[str, int] = {}
    for line in (common.read_text("/proc/meminfo") or "").splitlines():
        name, _, text = line.partition(":")
        if name in _MEMORY:
            found[name] = int(text.split()[0]) << 10
    for line in (common.read_text("/proc/vmstat") or "").splitlines():
        name, _, text = line.partition(" ")
        if name in _EVENTS:
            found[name] = int(text)
    return found


def main(argv: list[str]) -> int:
    """`caches drop|show|forget`."""
    return common.serve("caches", {"drop": drop, "show": show, "forget": forget}, argv)
