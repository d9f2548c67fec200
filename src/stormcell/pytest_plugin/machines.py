"""The machines that fixtures keep at this moment, for whoever reports a failure."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from stormcell.sandbox.api import Pool, Sandbox
from stormcell.template.model import Template


@dataclass(frozen=True, eq=False)
class Kept:
    """One machine, by the fixture that made it and the test or module that it is for."""

    what: str
    node: pytest.Item | pytest.Collector
    sandbox: Sandbox
    template: Template | None = None
    """None: it is a fork of a machine that no fixture of ours made."""


_POOLS: pytest.StashKey[dict[tuple[str, str], Pool]] = pytest.StashKey()
MACHINES: pytest.StashKey[list[Kept]] = pytest.StashKey()


def machines_of(item: pytest.Item) -> list[Kept]:
    """Those that the item may have used: its own, and those of its class and module if it asks for one of them."""
    chain = item.listchain()
    named = set(getattr(item, "fixturenames", ()))
    asks = bool(named & {"warmed", "forked", "stormcell_warmed", "stormcell_forked"})
    kept_now = item.config.stash.get(MACHINES, [])
    return [kept for kept in kept_now if kept.node is item or (asks and kept.node in chain)]


def pool_of(config: pytest.Config, template: Template, what: str, number: int) -> Pool | None:
    """Of whole machines for `sandbox`, of processes for `forked`; closed when the tests are over. None for a 0."""
    if number == 0:
        return None
    pools = config.stash.setdefault(_POOLS, {})
    key = (template.digest, what)
    if key not in pools:
        whole = what == "sandbox"
        pool = Pool(template, size=number if whole else 0, processes=0 if whole else number)
        config.add_cleanup(pool.close)
        pools[key] = pool.open()
    return pools[key]
