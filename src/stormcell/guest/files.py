"""The `file.*` and `sync` requests: each is done by a helper child, so that the agent never waits for a disk."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stormcell.guest import fileops, spawn
from stormcell.guest.job import Job
from stormcell.guest.trees import Single, Tree
from stormcell.guest.wire import WireError

if TYPE_CHECKING:
    from stormcell.guest.agent import Agent
    from stormcell.guest.port import Port


def serve(_agent: Agent, port: Port, stream: int, request: Mapping[str, Any]) -> None:
    """Start the helper. Raises NotStarted, WireError."""
    path = request.get("path", "/")
    if not isinstance(path, str) or "\0" in path:
        raise WireError("path must be a text without NUL")
    child = spawn.spawn(
        lambda: _help(request),
        stdin=request["op"] == "file.write",
        enter=_stay,
        protected=True,
    )
    port.streams[stream] = Job(
        port, stream, child, Single(), timeout=None, conclude=_result, release=_nothing, collect=True
    )


def _help(request: Mapping[str, Any]) -> None:
    os._exit(fileops.perform(request))


def _result(job: Job) -> Mapping[str, Any]:
    try:
        result = json.loads(job.collected)
    except ValueError:
        reason = "it was stopped" if job.cancelled else "its helper was killed"
        return {"error": {"kind": "lost", "message": reason}}
    return result if isinstance(result, dict) else {}


def _stay() -> None:
    """A helper stays in the agent's cgroup, which no fault limits."""


def _nothing(_tree: Tree) -> None:
    """A helper has no tree to let go of."""
