"""Removes what a killed worker of xdist left, as gc does: sandboxes whose owner is dead."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from stormcell.spec.home import Home

if TYPE_CHECKING:
    import pytest

ENDS_S = 2.0
"""A worker's end is told before its process is gone."""


def collect(config: pytest.Config) -> None:
    """Look, remove and say so. Where no sandbox is, that is a look at one folder."""
    home = Home.current()
    if not home.sandboxes.is_dir() or not any(home.sandboxes.iterdir()):
        return
    from stormcell.sandbox import layers
    from stormcell.sandbox.removal import remove
    from stormcell.sandbox.survey import decide_now, look_at_all

    deadline = time.monotonic() + ENDS_S
    removed = False
    while not removed and time.monotonic() < deadline:
        for found in look_at_all(home.sandboxes):
            decision = decide_now(found)
            if decision.remove and not found.owner_alive and (evidence := remove(found.folder, decision.reason)):
                removed = True
                _say(config, f"a worker died; {evidence.sentence()}")
        time.sleep(0.0 if removed else 0.1)
    if removed:
        list(layers.collect(home.state))


def _say(config: pytest.Config, text: str) -> None:
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    if reporter is not None:
        reporter.ensure_newline()
        reporter.write_line(f"stormcell: {text}")
