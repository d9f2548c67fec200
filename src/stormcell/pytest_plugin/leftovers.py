"""Removes what a worker of xdist left that was killed: the machines whose owner it was."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from stormcell.spec.home import Home

if TYPE_CHECKING:
    import pytest

ENDS_S = 5.0
"""A worker's end is told before its process is gone."""


def collect(config: pytest.Config, pid: int) -> None:
    """Look for sandboxes of process `pid`, and remove those once it is dead. Costs a look at a folder when none is."""
    sandboxes = Home.current().sandboxes
    if not sandboxes.is_dir() or not any(sandboxes.iterdir()):
        return
    from stormcell.sandbox import layers
    from stormcell.sandbox.removal import remove
    from stormcell.sandbox.survey import Found, decide_now, look_at_all

    def of_worker() -> list[Found]:
        return [each for each in look_at_all(sandboxes) if _owner(each) == pid]

    deadline = time.monotonic() + ENDS_S
    while found := of_worker():
        if not any(each.owner_alive for each in found):
            break
        if time.monotonic() > deadline:
            return
        time.sleep(0.1)
    for each in found:
        decision = decide_now(each)
        if decision.remove and (evidence := remove(each.folder, f"a worker of the tests died: {decision.reason}")):
            _say(config, evidence.sentence())
    if found:
        list(layers.collect(Home.current().state))


def _owner(found: Any) -> int | None:
    return found.record.owner.pid if found.record and found.record.owner else None


def _say(config: pytest.Config, text: str) -> None:
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(f"stormcell: {text}")
