"""`stormcell-guest node make|start|list|exec`."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

from stormcell.guest import nodes
from stormcell.guest.tools import common, restart
from stormcell.guest.tools.nodes import making

_EARLY_S = 0.2
"""A service without `ready` that ends within that time is one that never ran."""
_LAST = 2000
"""Bytes of a log in which its last line is looked for."""


def make() -> dict[str, Any]:
    """Reads the list of nodes on stdin; their services are not started yet."""
    specs = json.loads(sys.stdin.read())
    making.make(specs)
    making.save(specs)
    return {"made": [spec["name"] for spec in specs]}


def start(node: str, within: str) -> dict[str, Any]:
    """Start its services, each when the one before it is ready. Raises ValueError for the first that does not run."""
    asked = [spec for spec in making.saved() if spec["name"] == node]
    if not asked:
        raise ValueError(f"there is no node '{node}'")
    answer = restart.ask("load", node, float(within))
    if "error" in answer:
        raise ValueError(answer["error"])
    if any(service.get("ready") is None for service in asked[0]["services"]):
        time.sleep(_EARLY_S)
        answer = restart.ask("status", None)
    for service in asked[0]["services"]:
        state = answer["services"][nodes.service_key(service["name"], node)]
        if state["state"] != "running":
            raise ValueError(_why(service["name"], node, state))
    return {"running": [service["name"] for service in asked[0]["services"]]}


def listing() -> list[dict[str, Any]]:
    """Every node."""
    return making.saved()


def run(node: str, *argv: str) -> None:
    """Become `argv` there: for a look at a node from outside of a run."""
    if not argv:
        raise ValueError("there is no command")
    nodes.enter(node)
    os.environ[nodes.VARIABLE] = node
    os.execvp(argv[0], argv)


def _why(service: str, node: str, state: dict[str, Any]) -> str:
    ended = state.get("last_exit") or {}
    how = state.get("reason") or next((f"{key} {value}" for key, value in ended.items() if value is not None), "")
    said = _last_words(nodes.service_key(service, node))
    return f"service '{service}' of node '{node}' does not run: {state['state']}" + (f" ({how})" if how else "") + said


def _last_words(key: str) -> str:
    text = (common.read_text(f"/run/stormcell/log/{key}.log") or "")[-_LAST:].strip()
    return f"; it last said: {text[-250:]}" if text else "; it said nothing"


def main(argv: list[str]) -> int:
    """`node make|start|list|exec`."""
    verbs: dict[str, common.Verb] = {"make": make, "start": start, "list": listing, "exec": run}
    return common.serve("node", verbs, argv)
