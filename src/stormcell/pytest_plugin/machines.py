"""The machines that fixtures keep at this moment, for whoever reports a failure."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stormcell.sandbox.api import Sandbox


@dataclass(frozen=True, eq=False)
class Kept:
    """One machine, by the fixture that made it and the test or module that it is for."""

    what: str
    node: pytest.Item | pytest.Collector
    sandbox: Sandbox
    services: tuple[str, ...]


MACHINES: pytest.StashKey[list[Kept]] = pytest.StashKey()


def machines_of(item: pytest.Item) -> list[Kept]:
    """Those that the item may have used: its own, and those of its class and module if it asks for one of them."""
    chain = item.listchain()
    named = set(getattr(item, "fixturenames", ()))
    asks = bool(named & {"warmed", "forked", "stormcell_warmed", "stormcell_forked"})
    kept_now = item.config.stash.get(MACHINES, [])
    return [kept for kept in kept_now if kept.node is item or (asks and kept.node in chain)]
